//! Load balancers: whole controllers over the embedded API, the provider of Azure over the emulator, with faults
//! and crashes.

use bindery_testkit::{
    Crashes,
    balancing::{plan, run},
    sim::{SimPlan, SimReport, Words},
};

/// Crash points looked at in one scenario. More writes than that would be a bug of its own.
const CRASH_POINTS_MAX: u64 = 400;

fn check(plan: SimPlan) -> SimReport {
    let report = run(plan);
    let seed = plan.seed;
    let replay = format!("replay it with: cargo xtask sim --balancers --seed {seed}");
    assert_eq!(report.failure, None, "seed {seed} failed; {replay}");
    report
}

#[test]
fn every_crash_point_of_a_scenario_of_balancers_comes_right() {
    let plan = SimPlan {
        seed: 4,
        acts: 6,
        crashes: Crashes::AfterWrite(u64::MAX),
        words: Words::Dropped,
    };
    let writes = check(plan).writes;
    assert!((10..CRASH_POINTS_MAX).contains(&writes), "{writes} writes");
    for number in 0..writes {
        let report = check(SimPlan {
            crashes: Crashes::AfterWrite(number),
            ..plan
        });
        assert_eq!(report.crashes, 1, "crash after write {number}");
    }
}

#[test]
fn random_faults_and_crashes_of_balancers_come_right() {
    for seed in 0..20 {
        check(plan(seed));
    }
}

#[test]
fn the_same_seed_gives_the_same_run_of_balancers() {
    let [one, other] = [(), ()].map(|()| check(plan(7)).digest);
    assert_eq!(one, other);
}
