//! A short run of what `--bin fuzz` does for long.

use bindery_testkit::fuzz::TARGETS;

#[test]
fn bytes_of_others_do_no_harm() {
    for target in &TARGETS {
        for seed in 0..5 {
            target.run(seed, 5_000).expect("every law holds");
        }
    }
}
