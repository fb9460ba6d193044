//! The status of a pod, from what is known of its containers.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::container::ContainerRole;

/// What is known of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodFacts {
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) started: Option<Timestamp>,
    /// Why it cannot be on this node.
    pub(crate) unschedulable: Option<String>,
    /// What it waits for.
    pub(crate) message: Option<String>,
    pub(crate) init: Vec<ContainerFacts>,
    pub(crate) containers: Vec<ContainerFacts>,
}

/// What is known of a container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerFacts {
    pub(crate) state: ContainerPhase,
    pub(crate) last: Option<ContainerEnd>,
    pub(crate) restarts: i32,
    pub(crate) is_started: bool,
    pub(crate) is_ready: bool,
}

/// How far a container is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ContainerPhase {
    Waiting {
        reason: &'static str,
        message: String,
    },
    Running {
        since: Timestamp,
        pid: u32,
    },
    Ended(ContainerEnd),
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerEnd {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) message: Option<String>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) finished: Option<Timestamp>,
}

impl PodFacts {
    /// Nothing can be started, for this reason.
    pub(crate) fn wait(&mut self, why: &str) {
        self.message = Some(why.to_owned());
        for one in self.init.iter_mut().chain(&mut self.containers) {
            one.state = ContainerPhase::Waiting {
                reason: "ContainerCreating",
                message: why.to_owned(),
            };
        }
    }

    pub(crate) fn containers_of(&self, role: ContainerRole) -> &[ContainerFacts] {
        match role {
            ContainerRole::Init => &self.init,
            ContainerRole::Main => &self.containers,
        }
    }

    pub(crate) fn containers_of_mut(&mut self, role: ContainerRole) -> &mut [ContainerFacts] {
        match role {
            ContainerRole::Init => &mut self.init,
            ContainerRole::Main => &mut self.containers,
        }
    }

    /// What is known before anything was done; restarts are counted on from what the status says.
    pub(crate) fn of(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let spec = pod.spec.clone().unwrap_or_default();
        let facts = |containers: &[Container], told: Option<Vec<ContainerStatus>>| {
            let told = told.unwrap_or_default();
            let of = |one: &Container| told.iter().find(|told| told.name == one.name);
            containers
                .iter()
                .map(|one| ContainerFacts::of(of(one)))
                .collect()
        };
        Self {
            started: status.start_time.map(|time| time.0),
            init: facts(
                &spec.init_containers.unwrap_or_default(),
                status.init_container_statuses,
            ),
            containers: facts(&spec.containers, status.container_statuses),
            ..Self::default()
        }
    }
}

impl ContainerFacts {
    fn of(told: Option<&ContainerStatus>) -> Self {
        let had = told.and_then(|told| told.state.as_ref());
        let ran = had.and_then(|state| state.running.as_ref());
        let last = told.and_then(|told| told.last_state.as_ref()?.terminated.as_ref());
        Self {
            state: ContainerPhase::Waiting {
                reason: "ContainerCreating",
                message: String::new(),
            },
            // It ran when this process, or the machine, ended; nobody saw how it did.
            last: match ran {
                Some(ran) => Some(ContainerEnd {
                    code: 255,
                    signal: None,
                    message: Some("it ended with the process that ran it".to_owned()),
                    started: ran.started_at.as_ref().map(|time| time.0),
                    finished: None,
                }),
                None => last.map(ContainerEnd::read),
            },
            restarts: told.map_or(0, |told| told.restart_count) + i32::from(ran.is_some()),
            is_started: false,
            is_ready: false,
        }
    }

    fn status(&self, container: &Container) -> ContainerStatus {
        let mut state = ContainerState::default();
        let mut id = None;
        match &self.state {
            ContainerPhase::Waiting { reason, message } => {
                let message = Some(message.clone()).filter(|message| !message.is_empty());
                state.waiting = Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message,
                });
            }
            ContainerPhase::Running { since, pid } => {
                id = Some(format!("process://{pid}"));
                state.running = Some(ContainerStateRunning {
                    started_at: Some(time(*since)),
                });
            }
            ContainerPhase::Ended(end) => state.terminated = Some(end.state()),
        }
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            image_id: String::new(),
            container_id: id,
            ready: self.is_ready,
            started: Some(self.is_started),
            restart_count: self.restarts,
            state: Some(state),
            last_state: Some(ContainerState {
                terminated: self.last.as_ref().map(ContainerEnd::state),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }
    }
}

impl ContainerEnd {
    /// Whether the program did what it was to do.
    pub(crate) fn is_success(&self) -> bool {
        self.code == 0
    }

    fn state(&self) -> ContainerStateTerminated {
        let reason = match self.code {
            0 => "Completed",
            255 if self.finished.is_none() => "ContainerStatusUnknown",
            _ => "Error",
        };
        ContainerStateTerminated {
            exit_code: self.code,
            signal: self.signal,
            reason: Some(reason.to_owned()),
            message: self.message.clone(),
            started_at: self.started.map(time),
            finished_at: self.finished.map(time),
            container_id: None,
        }
    }

    fn read(told: &ContainerStateTerminated) -> Self {
        Self {
            code: told.exit_code,
            signal: told.signal,
            message: told.message.clone(),
            started: told.started_at.as_ref().map(|time| time.0),
            finished: told.finished_at.as_ref().map(|time| time.0),
        }
    }
}

/// The patch that makes the status of a pod true; none if it is.
pub(crate) fn patch(pod: &Pod, facts: &PodFacts, now: Timestamp) -> Option<Value> {
    let before = pod.status.clone().unwrap_or_default();
    let wanted = status(pod, facts, now);
    let conditions = wanted.conditions.as_deref().unwrap_or_default();
    let is_told = |one: &PodCondition| {
        before
            .conditions
            .iter()
            .flatten()
            .any(|told| same(told, one))
    };
    let is_same = before.phase == wanted.phase
        && before.message == wanted.message
        && before.pod_ip == wanted.pod_ip
        && before.host_ip == wanted.host_ip
        && before.start_time == wanted.start_time
        && before.container_statuses == wanted.container_statuses
        && before.init_container_statuses == wanted.init_container_statuses
        && conditions.iter().all(is_told);
    if is_same {
        return None;
    }
    Some(json!({
        // Of another pod with this name nothing is said.
        "metadata": {"uid": pod.metadata.uid},
        "status": {
            "phase": wanted.phase,
            "message": wanted.message,
            "hostIP": wanted.host_ip,
            "hostIPs": wanted.host_ips,
            "podIP": wanted.pod_ip,
            "podIPs": wanted.pod_ips,
            "startTime": wanted.start_time,
            "conditions": conditions.iter().map(written).collect::<Vec<Value>>(),
            "containerStatuses": wanted.container_statuses,
            "initContainerStatuses": wanted.init_container_statuses,
        },
    }))
}

/// The status that a pod ought to have.
fn status(pod: &Pod, facts: &PodFacts, now: Timestamp) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let before = pod.status.clone().unwrap_or_default();
    let build = Conditions {
        before: before.conditions.as_deref().unwrap_or_default(),
        now,
    };
    if let Some(why) = &facts.unschedulable {
        let scheduled = build.condition("PodScheduled", Err(("Unschedulable", why.clone())));
        return PodStatus {
            phase: Some("Pending".to_owned()),
            conditions: Some(vec![scheduled]),
            ..PodStatus::default()
        };
    }
    let statuses = |containers: &[Container], facts: &[ContainerFacts]| {
        let each = containers
            .iter()
            .zip(facts)
            .map(|(one, facts)| facts.status(one));
        Some(each.collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    let init = spec.init_containers.clone().unwrap_or_default();
    let is_initialized = facts.init.iter().all(|one| match &one.state {
        ContainerPhase::Ended(end) => end.is_success(),
        ContainerPhase::Waiting { .. } | ContainerPhase::Running { .. } => false,
    });
    let is_created = |one: &ContainerFacts| match one.state {
        ContainerPhase::Running { .. } | ContainerPhase::Ended(_) => true,
        ContainerPhase::Waiting { .. } => one.restarts > 0 || one.last.is_some(),
    };
    let runs = is_initialized && facts.containers.iter().any(is_created);
    PodStatus {
        phase: Some(if runs { "Running" } else { "Pending" }.to_owned()),
        message: facts.message.clone(),
        host_ip: Some(crate::HOST_ADDRESS.to_string()),
        host_ips: Some(vec![HostIP {
            ip: crate::HOST_ADDRESS.to_string(),
        }]),
        pod_ip: facts.address.map(|address| address.to_string()),
        pod_ips: facts.address.map(|address| {
            vec![PodIP {
                ip: address.to_string(),
            }]
        }),
        start_time: facts.started.map(time),
        conditions: Some(build.all(pod, facts, is_initialized)),
        container_statuses: statuses(&spec.containers, &facts.containers),
        init_container_statuses: statuses(&init, &facts.init),
        ..PodStatus::default()
    }
}

/// What makes conditions, with the time at which each last changed.
struct Conditions<'a> {
    before: &'a [PodCondition],
    now: Timestamp,
}

impl Conditions<'_> {
    fn all(&self, pod: &Pod, facts: &PodFacts, is_initialized: bool) -> Vec<PodCondition> {
        let spec = pod.spec.clone().unwrap_or_default();
        let unready = |facts: &[ContainerFacts], all: &[Container]| {
            let names = all.iter().zip(facts).filter(|(_, facts)| !facts.is_ready);
            names
                .map(|(one, _)| one.name.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let init = spec.init_containers.clone().unwrap_or_default();
        let initialized = if is_initialized {
            Ok(())
        } else {
            let names = unready(&facts.init, &init);
            let message = format!("containers with incomplete status: [{names}]");
            Err(("ContainersNotInitialized", message))
        };
        let names = unready(&facts.containers, &spec.containers);
        let ready = if names.is_empty() {
            Ok(())
        } else {
            let message = format!("containers with unready status: [{names}]");
            Err(("ContainersNotReady", message))
        };
        let gates = ready.clone().and_then(|()| self.gates(pod));
        vec![
            self.condition("Initialized", initialized),
            self.condition("Ready", gates),
            self.condition("ContainersReady", ready),
            self.condition("PodScheduled", Ok(())),
        ]
    }

    fn gates(&self, pod: &Pod) -> Result<(), (&'static str, String)> {
        let gates = pod
            .spec
            .iter()
            .flat_map(|spec| spec.readiness_gates.iter().flatten());
        for gate in gates {
            let name = &gate.condition_type;
            let told = self.before.iter().find(|one| one.type_ == *name);
            let message = match told {
                Some(told) if told.status == "True" => continue,
                Some(told) => format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                    told.status
                ),
                None => {
                    format!(
                        "corresponding condition of pod readiness gate \"{name}\" does not exist."
                    )
                }
            };
            return Err(("ReadinessGatesNotReady", message));
        }
        Ok(())
    }

    fn condition(&self, name: &str, state: Result<(), (&str, String)>) -> PodCondition {
        let status = if state.is_ok() { "True" } else { "False" };
        let before = self
            .before
            .iter()
            .find(|one| one.type_ == name && one.status == status);
        let (reason, message) = match state {
            Ok(()) => (None, None),
            Err((reason, message)) => (Some(reason.to_owned()), Some(message)),
        };
        PodCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            last_transition_time: before
                .and_then(|one| one.last_transition_time.clone())
                .or_else(|| Some(time(self.now))),
            ..PodCondition::default()
        }
    }
}

fn same(told: &PodCondition, wanted: &PodCondition) -> bool {
    let parts = |one: &PodCondition| {
        (
            one.type_.clone(),
            one.status.clone(),
            one.reason.clone(),
            one.message.clone(),
        )
    };
    parts(told) == parts(wanted)
}

/// A condition as a patch has it: what it does not have is taken away.
fn written(one: &PodCondition) -> Value {
    json!({
        "type": one.type_, "status": one.status, "reason": one.reason, "message": one.message,
        "lastTransitionTime": one.last_transition_time,
    })
}

/// A time as the API keeps it: without parts of a second.
fn time(at: Timestamp) -> Time {
    Time(whole(at))
}

/// The second in which a time is.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests;
