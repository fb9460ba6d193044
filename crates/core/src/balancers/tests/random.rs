//! Whatever happens in whichever order, in the end the provider has what is asked for.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Service(u8, u16),
    Retire(u8),
    Slice(u8, u8, Vec<(u8, u8, bool)>),
    DropSlice(u8),
    Node(u8, u8),
    Pod(u8, u8, u8),
    DropPod(u8),
    Land(u8),
    Fault(u8),
    Crash(u8),
    Pass(u16),
    Vandal(u8, u8),
}

fn event() -> impl Strategy<Value = Event> {
    let endpoints = prop::collection::vec((1_u8..6, 1_u8..4, any::<bool>()), 0..4);
    prop_oneof![
        3 => (0_u8..3, 80_u16..82).prop_map(|(uid, port)| Event::Service(uid, port)),
        2 => (0_u8..3).prop_map(Event::Retire),
        4 => (0_u8..4, 0_u8..3, endpoints).prop_map(|(one, uid, all)| Event::Slice(one, uid, all)),
        1 => (0_u8..4).prop_map(Event::DropSlice),
        1 => (1_u8..4, 0_u8..3).prop_map(|(node, at)| Event::Node(node, at)),
        2 => (0_u8..3, 0_u8..2, 1_u8..6).prop_map(|(uid, label, ip)| Event::Pod(uid, label, ip)),
        1 => (0_u8..3).prop_map(Event::DropPod),
        9 => any::<u8>().prop_map(Event::Land),
        2 => (0_u8..5).prop_map(Event::Fault),
        1 => any::<u8>().prop_map(Event::Crash),
        2 => (0_u16..400).prop_map(Event::Pass),
        1 => (0_u8..3, 1_u8..6).prop_map(|(what, which)| Event::Vandal(what, which)),
    ]
}

impl Stage {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Service(uid, port) => self.service(&format!("s{uid}"), port),
            Event::Retire(uid) if self.services.contains_key(&format!("s{uid}")) => {
                self.retire(&format!("s{uid}"));
            }
            Event::Slice(slice, uid, endpoints) => {
                let endpoint = |(ip, node, is_ready): &(u8, u8, bool)| {
                    let end = if *is_ready { "" } else { "~" };
                    format!("10.0.0.{ip}@n{node}{end}")
                };
                let all: Vec<String> = endpoints.iter().map(endpoint).collect();
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                self.slice(&format!("e{slice}"), &format!("s{uid}"), &all);
            }
            Event::DropSlice(slice) => self.drop_slice(&format!("e{slice}")),
            Event::Node(node, 0) => self.node(&format!("n{node}"), ""),
            Event::Node(node, at) => self.node(&format!("n{node}"), &format!("192.0.2.{at}")),
            // A pod keeps its label and its address, and none comes back.
            Event::Pod(uid, label, ip) => {
                let uid = format!("p{uid}-{label}-{ip}");
                if !self.leaving.contains_key(&uid) {
                    self.pod(&uid, &format!("out{label}"), &format!("10.0.0.{ip}"));
                }
            }
            Event::DropPod(at) => {
                let uid = self.pods.keys().nth(usize::from(at)).cloned();
                if let Some(uid) = uid {
                    self.drop_pod(&uid);
                }
            }
            Event::Land(at) => {
                self.begin();
                if !self.flying.is_empty() {
                    let at = usize::from(at) % self.flying.len();
                    self.land(at);
                }
            }
            Event::Fault(kind) => self.world.faults.push_back(any_fault(kind)),
            Event::Crash(done) => {
                for (at, (_, step)) in std::mem::take(&mut self.flying).iter().enumerate() {
                    if done & 1 << (at % 8) != 0 {
                        self.world.carry_out(step);
                    }
                }
                self.crash();
            }
            Event::Pass(seconds) => self.pass(Duration::from_secs(seconds.into())),
            Event::Vandal(what, which) => self.world.vandalize(what, which),
            Event::Retire(_) => {}
        }
    }
}

impl World {
    /// Somebody else changes what is ours.
    fn vandalize(&mut self, what: u8, which: u8) {
        let address = [10, 0, 0, which].into();
        let first = self.holdings.balancers.keys().next().cloned();
        match (what, first) {
            (0, Some(key)) => {
                for bindings in self.holdings.addresses.values_mut() {
                    bindings.retain(|one| one.balancer != key);
                }
                self.holdings.addresses.retain(|_, all| !all.is_empty());
                self.holdings.balancers.remove(&key);
                self.is_vandalized = true;
            }
            (1, Some(balancer)) => {
                let binding = Binding {
                    location: Some([192, 0, 2, 99].into()),
                    balancer,
                    targets: Arc::default(),
                };
                let bindings = self.holdings.addresses.entry(address).or_default();
                bindings.insert(binding);
                self.is_vandalized = true;
            }
            _ => {
                self.holdings.addresses.remove(&address);
            }
        }
    }
}

fn any_fault(kind: u8) -> Fault {
    match kind {
        0 => fault(FaultKind::Throttled).with_retry_after(Duration::from_secs(20)),
        1 => fault(FaultKind::ServerFailed),
        2 => fault(FaultKind::Unreachable),
        _ => fault(FaultKind::Lost),
    }
}

/// Each case is of up to sixty events; more are tried with `PROPTEST_CASES`.
fn cases() -> ProptestConfig {
    let asked_for = option_env!("PROPTEST_CASES").and_then(|text| text.parse().ok());
    ProptestConfig::with_cases(asked_for.unwrap_or(64))
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn in_the_end_the_provider_has_what_is_asked_for(
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut stage = Stage::new();
        for event in events {
            stage.happen(event);
            if !stage.world.is_vandalized {
                prop_assert_eq!(&stage.world.broken, &Vec::<String>::new());
            }
        }
        stage.world.faults.clear();
        stage.pass(Duration::from_hours(1));
        prop_assert_eq!(stage.lines(), stage.truth());
        prop_assert_eq!(&stage.retiring, &BTreeSet::new());
        prop_assert_eq!(stage.leaving.keys().collect::<Vec<_>>(), Vec::<&String>::new());
        for uid in stage.services.keys() {
            let report = stage.machine.report(&service_key(uid));
            prop_assert!(report.is_programmed && report.waiting_len == 0, "{:?}", report);
        }
        // Who counts by what was told last counts right.
        for key in stage.machine.keys() {
            prop_assert_eq!(stage.reports.get(key), Some(&stage.machine.report(key)));
        }
        // Nothing more is sent, however long one waits.
        stage.world.log.clear();
        stage.pass(Duration::from_hours(1));
        prop_assert!(stage.world.log.iter().all(|line| line == "read"), "{:?}", stage.world.log);
    }
}
