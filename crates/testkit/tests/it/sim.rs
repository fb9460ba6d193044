//! Whole controllers over the embedded API and a name server in memory, with faults and crashes.

use bindery_testkit::{
    Crashes,
    sim::{SimPlan, SimReport, Words, run},
};

/// Crash points looked at in one scenario. More writes than that would be a bug of its own.
const CRASH_POINTS_MAX: u64 = 400;

fn check(plan: SimPlan) -> SimReport {
    let report = run(plan);
    let seed = plan.seed;
    let replay = format!("replay it with: cargo xtask sim --seed {seed}");
    assert_eq!(report.failure, None, "seed {seed} failed; {replay}");
    report
}

#[test]
fn every_crash_point_of_a_scenario_comes_right() {
    for seed in [2, 3] {
        let plan = SimPlan {
            seed,
            acts: 8,
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
}

#[test]
fn random_faults_and_crashes_come_right() {
    for seed in 0..20 {
        check(SimPlan::of_seed(seed));
    }
}

/// Each of these went wrong once, with the mistakes that unit tests now show by themselves.
#[test]
fn seeds_that_failed_once_come_right() {
    for seed in [
        8, 20_078, 20_174, 21_058, 30_055, 41_035, 50_087, 60_002, 60_071, 60_458, 60_656,
    ] {
        check(SimPlan::of_seed(seed));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [7, 8] {
        let [one, other] = [(), ()].map(|()| {
            check(SimPlan {
                words: Words::Kept,
                ..SimPlan::of_seed(seed)
            })
        });
        let same = one
            .words
            .iter()
            .zip(&other.words)
            .take_while(|(one, other)| one == other);
        let same = same.count();
        assert_eq!(
            one.words.get(same),
            other.words.get(same),
            "line {same} differs"
        );
        assert_eq!(one.digest, other.digest);
    }
}
