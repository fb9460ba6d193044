use bindery_api::{AddressPool, AddressPoolSpec};
use bindery_core::pools::{AddressRange, Overlap, PoolReport, PoolUsage};
use bindery_core::{Moment, Problem};

use super::status::status;

fn pool() -> AddressPool {
    let mut pool = AddressPool::new("lab", AddressPoolSpec::default());
    pool.metadata.generation = Some(3);
    pool
}

fn report(total: u128, used: u128) -> PoolReport {
    PoolReport {
        usage: PoolUsage { total, used },
        overlap: None,
    }
}

/// Status and reason of Ready, and the numbers.
fn shown(pool: &AddressPool, problems: &[Problem], report: &PoolReport) -> String {
    let status = status(pool, problems, report, Moment(7));
    let ready = &status.conditions[0];
    format!(
        "{} {} {:?} {:?} {:?}",
        ready.status, ready.reason, status.total, status.used, status.free
    )
}

#[test]
fn a_pool_says_how_much_is_used_and_whether_services_get_addresses() {
    let fine = shown(&pool(), &[], &report(6, 2));
    assert_eq!(fine, "True ReconcileSucceeded Some(6) Some(2) Some(4)");
    let full = shown(&pool(), &[], &report(6, 6));
    assert_eq!(full, "False AddressPoolUsedUp Some(6) Some(6) Some(0)");
    let mistake = Problem::invalid("spec.addresses[0]", "is nonsense");
    let wrong = shown(&pool(), &[mistake], &report(0, 0));
    assert_eq!(wrong, "False Invalid Some(0) Some(0) Some(0)");
    let shared = PoolReport {
        overlap: Some(Overlap {
            older: "first".to_owned(),
            range: AddressRange::parse("192.0.2.1-192.0.2.2").expect("a range"),
        }),
        ..report(6, 2)
    };
    let shared = shown(&pool(), &[], &shared);
    assert_eq!(shared, "True PoolsOverlap Some(6) Some(2) Some(4)");
}

#[test]
fn a_status_that_says_the_same_is_the_same() {
    let mut pool = pool();
    let first = status(&pool, &[], &report(6, 2), Moment(7));
    pool.status = Some(first.clone());
    assert_eq!(status(&pool, &[], &report(6, 2), Moment(99)), first);
    let later = status(&pool, &[], &report(6, 6), Moment(99));
    assert_eq!(later.conditions[0].last_transition_time.0.as_second(), 99);
}
