use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use bindery_core::SmallSet;

use super::*;

/// A provider that refuses requests with certain addresses in them, and counts.
struct Picky {
    bad: BTreeSet<u8>,
    fault: Fault,
    requests: Mutex<Vec<usize>>,
}

impl Picky {
    fn new(bad: &[u8], kind: FaultKind) -> Self {
        Self {
            bad: bad.iter().copied().collect(),
            fault: Fault::new(kind, "as the test says"),
            requests: Mutex::default(),
        }
    }

    fn requests(&self) -> usize {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl LoadBalancer for Picky {
    fn ensure<'a>(
        &'a self,
        _: &'a BalancerKey,
        _: &'a BalancerSpec,
        _: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        Box::pin(std::future::ready(Ok(Frontage::default())))
    }

    fn remove<'a>(&'a self, _: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>> {
        let requests = self.requests.lock();
        let mut requests = requests.unwrap_or_else(PoisonError::into_inner);
        requests.push(changes.len());
        let is_bad = changes.iter().any(|one| self.bad.contains(&last(one)));
        let done = |change: &AddressChange| AddressOutcome {
            address: change.address,
            result: Ok(()),
        };
        let answer = if is_bad {
            Err(self.fault.clone())
        } else {
            Ok(changes.iter().rev().map(done).collect())
        };
        Box::pin(std::future::ready(answer))
    }

    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>> {
        Box::pin(std::future::ready(Ok(Holdings::default())))
    }
}

fn last(change: &AddressChange) -> u8 {
    match change.address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => unreachable!("these tests have none"),
    }
}

fn changes(len: u8) -> Vec<AddressChange> {
    let change = |last| AddressChange {
        address: Ipv4Addr::new(10, 0, 0, last).into(),
        stood: SmallSet::default(),
        wanted: SmallSet::default(),
    };
    (0..len).map(change).collect()
}

async fn failed(provider: &Picky, len: u8) -> Vec<(u8, FaultKind)> {
    let changes = changes(len);
    let outcomes = send_addresses(provider, &changes).await;
    let asked = changes.iter().map(|one| one.address);
    assert!(outcomes.iter().map(|one| one.address).eq(asked));
    let kind = |one: &AddressOutcome| one.result.as_ref().err().map(|fault| fault.kind);
    let pairs = changes.iter().map(last).zip(outcomes.iter().map(kind));
    pairs
        .filter_map(|(last, kind)| Some((last, kind?)))
        .collect()
}

#[tokio::test]
async fn a_bad_address_fails_alone() {
    let provider = Picky::new(&[77], FaultKind::Invalid);
    assert_eq!(failed(&provider, 128).await, [(77, FaultKind::Invalid)]);
    assert!(provider.requests() <= 15, "{}", provider.requests());
    let provider = Picky::new(&[0, 9, 99], FaultKind::TooLarge);
    let each = [0, 9, 99].map(|last| (last, FaultKind::TooLarge));
    assert_eq!(failed(&provider, 100).await, each);
}

#[tokio::test]
async fn nothing_is_sent_after_a_fault_that_concerns_everything() {
    for kind in [
        FaultKind::Throttled,
        FaultKind::ServerFailed,
        FaultKind::Denied,
    ] {
        let provider = Picky::new(&[1], kind);
        assert_eq!(failed(&provider, 3).await, [0, 1, 2].map(|one| (one, kind)));
        assert_eq!(provider.requests(), 1);
    }
    assert_eq!(failed(&Picky::new(&[], FaultKind::Lost), 0).await, []);
}

#[test]
fn what_was_not_sent_is_not_unknown() {
    let lost = Fault::new(FaultKind::Lost, "no answer");
    assert_eq!(not_sent(lost).kind, FaultKind::Unreachable);
    let throttled = Fault::new(FaultKind::Throttled, "wait").with_code(429_u16);
    assert_eq!(not_sent(throttled.clone()), throttled);
}

#[test]
fn what_a_provider_does_not_answer_for_is_unknown() {
    let changes = changes(2);
    let answers = vec![AddressOutcome {
        address: changes[1].address,
        result: Ok(()),
    }];
    let outcomes = in_order(&changes, answers);
    let fault = outcomes[0].result.as_ref().expect_err("nobody answered");
    assert_eq!(fault.kind, FaultKind::Lost);
    assert_eq!(outcomes[1].result, Ok(()));
}
