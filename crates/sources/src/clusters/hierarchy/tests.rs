use super::*;

fn config(primaries: i64, secondaries: i64) -> ClusterConfig {
    let set = |replicas| {
        Some(ServerSet {
            replicas: Some(replicas),
            ..ServerSet::default()
        })
    };
    ClusterConfig {
        primary: set(primaries),
        secondary: set(secondaries),
        ..ClusterConfig::default()
    }
}

/// A small cluster whose objects are what was applied last.
struct Cluster {
    config: ClusterConfig,
    generation: i64,
    instances: Vec<InstanceView>,
}

impl Cluster {
    fn new(primaries: i64, secondaries: i64) -> Self {
        Self {
            config: config(primaries, secondaries),
            generation: 1,
            instances: Vec::new(),
        }
    }

    fn plan(&self) -> InstancePlan {
        let cluster = ClusterView {
            name: "dns",
            namespace: "system",
            uid: "u",
            generation: self.generation,
            config: &self.config,
        };
        plan_instances(&cluster, &self.instances)
    }

    /// Carries the plan out, and returns the names of what was applied and removed.
    fn step(&mut self) -> (Vec<String>, Vec<String>) {
        let plan = self.plan();
        let mut applied = Vec::new();
        for object in plan.apply {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let index = object["metadata"]["annotations"][INDEX_ANNOTATION].as_str();
            applied.push(name.to_owned());
            self.instances.retain(|one| one.name != name);
            self.instances.push(InstanceView {
                name: name.to_owned(),
                index: index.and_then(|index| index.parse().ok()),
                pods: (0, 1),
                object: object.clone(),
                ..InstanceView::default()
            });
        }
        self.instances
            .retain(|one| !plan.remove.contains(&one.name));
        (applied, plan.remove)
    }

    fn settle(&mut self) {
        for one in &mut self.instances {
            one.is_settled = true;
            one.ready = Some((true, Reason::AllReady, "All 1 pods are ready".into()));
            one.pods = (1, 1);
        }
    }

    fn said(&self) -> Vec<String> {
        let rollup = cluster_rollup(self.plan().total, &self.instances, &[]);
        let said = rollup.conditions.iter();
        said.map(|one| format!("{} {} {} {}", one.kind, one.holds, one.reason, one.message))
            .collect()
    }
}

#[test]
fn instances_are_made_at_once_each_with_a_number_of_its_own() {
    let mut cluster = Cluster::new(2, 1);
    let (applied, _) = cluster.step();
    assert_eq!(
        applied,
        ["dns-primary-0", "dns-primary-1", "dns-secondary-0"]
    );
    let numbers: Vec<_> = cluster.instances.iter().map(|one| one.index).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
    assert_eq!(cluster.step(), (vec![], vec![]));
}

#[test]
fn numbers_stay_when_others_come_and_go() {
    let mut cluster = Cluster::new(1, 2);
    cluster.step();
    cluster.settle();
    cluster.config = config(2, 2);
    cluster.step();
    let index = |cluster: &Cluster, name: &str| {
        let found = cluster.instances.iter().find(|one| one.name == name);
        found.and_then(|one| one.index)
    };
    assert_eq!(index(&cluster, "dns-secondary-0"), Some(1));
    assert_eq!(index(&cluster, "dns-primary-1"), Some(3));
    cluster.settle();
    cluster.config = config(2, 1);
    assert_eq!(cluster.step().1, ["dns-secondary-1"]);
    assert_eq!(index(&cluster, "dns-primary-1"), Some(3));
}

#[test]
fn of_what_is_too_many_the_highest_goes_first_and_the_next_when_it_is_gone() {
    let mut cluster = Cluster::new(3, 0);
    cluster.step();
    cluster.settle();
    cluster.config = config(1, 0);
    assert_eq!(cluster.plan().remove, ["dns-primary-2"]);
    cluster.instances[2].is_leaving = true;
    assert!(cluster.plan().remove.is_empty());
    cluster.instances.remove(2);
    assert_eq!(cluster.plan().remove, ["dns-primary-1"]);
}

#[test]
fn a_change_goes_from_one_instance_to_the_next_while_all_others_are_ready() {
    let mut cluster = Cluster::new(2, 1);
    cluster.step();
    cluster.settle();
    cluster.config.version = Some("9.20".into());
    cluster.generation = 2;
    assert_eq!(cluster.step().0, ["dns-primary-0"]);
    assert_eq!(cluster.step().0, [""; 0], "it is not ready yet");
    cluster.settle();
    assert_eq!(cluster.step().0, ["dns-primary-1"]);
    cluster.settle();
    assert_eq!(cluster.step().0, ["dns-secondary-0"]);
    cluster.settle();
    assert_eq!(cluster.step().0, [""; 0]);
}

#[test]
fn a_broken_instance_is_changed_although_others_are_not_ready() {
    let mut cluster = Cluster::new(2, 0);
    cluster.step();
    cluster.settle();
    for one in &mut cluster.instances {
        one.ready = Some((false, Reason::PodsCrashing, "No pods are ready".into()));
    }
    cluster.config.version = Some("9.20".into());
    assert_eq!(cluster.step().0, ["dns-primary-0"]);
}

#[test]
fn a_role_without_a_set_has_no_server_and_one_without_a_number_has_one() {
    let mut cluster = Cluster::new(0, 0);
    cluster.config.primary = Some(ServerSet::default());
    cluster.config.secondary = None;
    assert_eq!(cluster.step().0, ["dns-primary-0"]);
}

#[test]
fn the_conditions_of_a_cluster_from_its_birth_on() {
    let mut cluster = Cluster::new(2, 1);
    assert_eq!(
        cluster.said(),
        ["Ready false InstancesCreated 3 instances are created: "]
    );
    cluster.step();
    assert!(
        cluster.said()[0].starts_with("Ready false InstancesCreated 3 instances are created: dns-")
    );
    for one in &mut cluster.instances {
        one.is_settled = true;
        one.pods = (0, 1);
        one.ready = Some((false, Reason::NotReady, "No pods are ready".into()));
    }
    assert_eq!(
        cluster.said()[0],
        "Ready false InstancesPending No instances are ready"
    );
    cluster.settle();
    assert_eq!(
        cluster.said(),
        [
            "Ready true AllReady All 3 instances are ready",
            "Bind9Instance-0 true Ready Instance dns-primary-0 is ready (1/1 pods)",
            "Bind9Instance-1 true Ready Instance dns-primary-1 is ready (1/1 pods)",
            "Bind9Instance-2 true Ready Instance dns-secondary-0 is ready (1/1 pods)",
        ]
    );
    cluster.instances[2].ready = Some((false, Reason::PartiallyReady, String::new()));
    cluster.instances[2].pods = (1, 2);
    let said = cluster.said();
    assert_eq!(
        said[0],
        "Ready false PartiallyReady 2/3 instances are ready"
    );
    assert_eq!(
        said[3],
        "Bind9Instance-2 false PartiallyReady Instance dns-secondary-0 is progressing (1/2 pods)"
    );
    cluster.settle();
    cluster.config = config(3, 1);
    assert!(cluster.said()[0].starts_with("Ready false InstancesScaling"));
    cluster.step();
    assert_eq!(
        cluster.said()[0],
        "Ready false InstancesScaling 3/4 instances are ready; there are 4",
        "the new one has said nothing yet"
    );
}

#[test]
fn the_failure_of_an_instance_reaches_its_cluster() {
    let mut cluster = Cluster::new(1, 0);
    cluster.step();
    cluster.settle();
    let failure = (false, Reason::GatewayError, "No pods are ready".to_owned());
    cluster.instances[0].ready = Some(failure);
    cluster.instances[0].pods = (0, 1);
    assert_eq!(
        cluster.said(),
        [
            "Ready false NotReady No instances are ready",
            "Bind9Instance-0 false GatewayError Instance dns-primary-0 is not ready (0/1 pods): \
             No pods are ready",
        ]
    );
}

#[test]
fn a_cluster_wide_declaration_names_its_clusters() {
    let said = |clusters: &[(&str, bool)]| {
        let clusters: Vec<(String, bool)> = clusters
            .iter()
            .map(|(name, ready)| ((*name).to_owned(), *ready))
            .collect();
        let rollup = provider_rollup(&clusters);
        format!(
            "{} {}",
            rollup.conditions[0].reason, rollup.conditions[0].message
        )
    };
    assert_eq!(
        said(&[("a/dns", true), ("b/dns", true)]),
        "ClustersReady All 2 clusters are ready: a/dns, b/dns"
    );
    assert_eq!(
        said(&[("a/dns", true), ("b/dns", false)]),
        "ClustersProgressing 1/2 clusters are ready; not ready: b/dns"
    );
    assert!(said(&[]).starts_with("NoChildren"));
}
