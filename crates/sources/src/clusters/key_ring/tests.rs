use proptest::prelude::*;

use super::*;

/// A key: its name and which secret it has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toy(String, u32);

impl RingKey for Toy {
    fn name(&self) -> &str {
        &self.0
    }
}

fn toy(name: &str, secret: u32) -> Toy {
    Toy(name.to_owned(), secret)
}

/// What happens next in a run.
#[derive(Clone, Debug)]
enum Act {
    /// The controller takes a step; with a crash it never learns what came of it.
    Step { crashes: bool },
    /// A pod has its files as the Secret has them.
    Sync(usize),
    /// The server of a pod reads its files.
    Load(usize),
    /// A pod comes back.
    Restart(usize),
    /// Time goes by.
    Pass(u8),
    /// The author gives another key.
    Give(Toy),
    /// A generated key is due.
    Due,
    /// Somebody writes a record.
    Update,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let given = prop_oneof![Just("mine"), Just("theirs"), Just("bindy-operator")];
    let act = prop_oneof![
        4 => any::<bool>().prop_map(|crashes| Act::Step { crashes }),
        4 => (0..3_usize).prop_map(Act::Sync),
        4 => (0..3_usize).prop_map(Act::Load),
        1 => (0..3_usize).prop_map(Act::Restart),
        2 => (1..12_u8).prop_map(Act::Pass),
        1 => (given, 0..4_u32).prop_map(|(name, secret)| Act::Give(toy(name, secret))),
        1 => Just(Act::Due),
        3 => Just(Act::Update),
    ];
    prop::collection::vec(act, 1..120)
}

/// The Secret, the pods and those who sign.
struct Scene {
    secret: KeyRing<Toy>,
    /// What the controller read last, which it signs with.
    used: Toy,
    files: [KeyRing<Toy>; 3],
    loaded: [KeyRing<Toy>; 3],
    wish: KeyWish<Toy>,
    now: Moment,
    made: u32,
    /// Updates on their way, and when they were sent.
    sent: Vec<(Toy, Moment)>,
}

fn has(ring: &KeyRing<Toy>, key: &Toy) -> bool {
    ring.current == *key || ring.beside() == Some(key)
}

impl Scene {
    fn new() -> Self {
        let ring = KeyRing::of(toy("bindy-operator", 1000));
        Self {
            used: ring.current.clone(),
            files: [(); 3].map(|()| ring.clone()),
            loaded: [(); 3].map(|()| ring.clone()),
            secret: ring,
            wish: KeyWish::Keep,
            now: Moment(0),
            made: 0,
            sent: Vec::new(),
        }
    }

    fn step(&mut self) -> bool {
        let loaded = &self.loaded;
        let facts = KeyFacts {
            is_loaded: &|key| loaded.iter().all(|ring| has(ring, key)),
            now: self.now,
        };
        let next = match self.secret.step(&self.wish, &facts) {
            KeyStep::Rest | KeyStep::AwaitPods(_) | KeyStep::AwaitOverlap => return false,
            KeyStep::Make => {
                self.made += 1;
                let made = toy(&format!("bindy-operator-{}", self.made), self.made);
                self.secret.with_next(made)
            }
            KeyStep::Write(next) => next,
        };
        if next.current != self.secret.current && self.wish == KeyWish::Renew {
            self.wish = KeyWish::Keep;
        }
        self.secret = next;
        true
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Step { crashes } => {
                self.step();
                if !crashes {
                    self.used = self.secret.current.clone();
                }
            }
            Act::Sync(pod) => self.files[*pod] = self.secret.clone(),
            Act::Load(pod) => self.loaded[*pod] = self.files[*pod].clone(),
            Act::Restart(pod) => {
                self.files[*pod] = self.secret.clone();
                self.loaded[*pod] = self.secret.clone();
            }
            Act::Pass(seconds) => {
                self.now.0 += i64::from(*seconds);
                // Whoever crashed is back within seconds, and reads the Secret first.
                self.used = self.secret.current.clone();
                self.arrive();
            }
            Act::Give(key) => self.wish = KeyWish::Have(key.clone()),
            Act::Due => self.wish = KeyWish::Renew,
            Act::Update => self.sent.push((self.used.clone(), self.now)),
        }
        self.arrive_all_at_once();
    }

    /// What is older than an update can be is not on its way any more.
    fn arrive(&mut self) {
        let oldest = self.now.0 - i64::try_from(KEY_OVERLAP.as_secs()).unwrap_or_default();
        self.sent.retain(|(_, at)| at.0 > oldest);
    }

    /// Whatever is on its way may arrive now, on any server.
    fn arrive_all_at_once(&self) {
        for (key, at) in &self.sent {
            for (pod, ring) in self.loaded.iter().enumerate() {
                assert!(
                    has(ring, key),
                    "pod {pod} refuses {key:?} of {at:?} at {:?}",
                    self.now
                );
            }
        }
    }

    /// Everything works from now on.
    fn calm(&mut self) {
        for _ in 0..40 {
            self.act(&Act::Step { crashes: false });
            for pod in 0..3 {
                self.act(&Act::Sync(pod));
                self.act(&Act::Load(pod));
            }
            self.act(&Act::Update);
            self.act(&Act::Pass(5));
        }
    }
}

proptest! {
    #[test]
    fn no_update_is_refused_whenever_it_crashes_and_the_old_key_goes_in_the_end(acts in acts()) {
        let mut scene = Scene::new();
        for act in &acts {
            scene.act(act);
        }
        scene.calm();
        if let KeyWish::Have(wished) = &scene.wish {
            prop_assert_eq!(&scene.secret.current, wished);
        }
        for ring in scene.loaded.iter().chain(scene.files.iter()) {
            prop_assert!(*ring == scene.secret && ring.beside().is_none());
        }
        prop_assert!(!scene.step(), "it rests");
    }
}

#[test]
fn a_key_of_the_same_name_comes_by_way_of_another() {
    let mut scene = Scene::new();
    scene.act(&Act::Give(toy("bindy-operator", 7)));
    let mut names = Vec::new();
    for _ in 0..40 {
        scene.act(&Act::Step { crashes: false });
        let shown = (scene.used.0.clone(), scene.used.1);
        if names.last() != Some(&shown) {
            names.push(shown);
        }
        (0..3).for_each(|pod| scene.act(&Act::Restart(pod)));
        scene.act(&Act::Pass(5));
    }
    let expected = [
        ("bindy-operator", 1000),
        ("bindy-operator-1", 1),
        ("bindy-operator", 7),
    ];
    assert_eq!(
        names,
        expected.map(|(name, secret)| (name.to_owned(), secret))
    );
}

#[test]
fn a_pod_that_does_not_load_the_key_holds_it_up() {
    let mut scene = Scene::new();
    scene.act(&Act::Due);
    scene.act(&Act::Step { crashes: false });
    (0..2).for_each(|pod| scene.act(&Act::Restart(pod)));
    assert!(!scene.step());
    scene.act(&Act::Sync(2));
    assert!(!scene.step(), "it has the file and has not read it");
    scene.act(&Act::Load(2));
    assert!(scene.step());
}

#[test]
fn times_are_within_an_hour_and_a_year() {
    assert_eq!(rotation_period(None), Ok(2_592_000));
    assert_eq!(rotation_period(Some("30d")), Ok(2_592_000));
    assert_eq!(rotation_period(Some("1h")), Ok(3600));
    for wrong in [
        "",
        "h",
        "30",
        "1m",
        "0h",
        "53w",
        "9000h",
        "99999999999999999999d",
        "-1h",
    ] {
        assert!(rotation_period(Some(wrong)).is_err(), "{wrong}");
    }
}
