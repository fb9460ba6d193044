//! What Azure does not do, or does without saying so.

use std::time::Duration;

use bindery_azure::AzureBalancer;
use bindery_core::FaultKind;
use bindery_core::balancers::Family;
use bindery_engine::balancing::{LoadBalancer as _, send_addresses};
use bindery_testkit::azure::AzureFate;

use crate::stage::{Stage, address, binding, change, egress, inbound, lower, outbound, service};

fn refused(status: u16, code: &str) -> AzureFate {
    AzureFate::Refused(status, code.to_owned())
}

/// The kind of the fault of making a Service's load balancer when a request has a fate; tried again, it is made.
async fn ensure_with(request: &str, fate: AzureFate) -> (FaultKind, String) {
    let stage = Stage::new().await;
    stage.fail(request, fate);
    let mut settings = stage.settings();
    settings.times.request = Duration::from_millis(500);
    let provider = AzureBalancer::new(settings).expect("they are right");
    let (key, spec) = (service("u1"), inbound(&[80]));
    let fault = provider.ensure(&key, &spec, &[]).await;
    let fault = fault.expect_err("it is not done");
    provider.ensure(&key, &spec, &[]).await.expect("it is made");
    let holdings = provider.read().await.expect("it is read");
    assert_eq!(holdings.balancers[&key].digest, Some(spec.digest()));
    stage.check_foreign();
    (fault.kind, fault.message)
}

#[tokio::test]
async fn what_azure_says_has_its_kind_and_its_words() {
    for (request, fate, kind) in [
        (
            "PUT publicIPAddresses",
            refused(400, "PublicIPCountLimitReached"),
            FaultKind::Refused,
        ),
        (
            "PUT loadBalancers",
            refused(403, "QuotaExceeded"),
            FaultKind::Refused,
        ),
        (
            "PUT loadBalancers",
            refused(400, "InvalidRequestFormat"),
            FaultKind::Invalid,
        ),
        (
            "PUT loadBalancers",
            refused(403, "AuthorizationFailed"),
            FaultKind::Denied,
        ),
        (
            "PUT loadBalancers",
            refused(409, "AnotherOperationInProgress"),
            FaultKind::Throttled,
        ),
        (
            "GET loadBalancers",
            refused(500, "InternalServerError"),
            FaultKind::ServerFailed,
        ),
        (
            "PUT loadBalancers",
            AzureFate::OperationFails("InternalServerError".to_owned()),
            FaultKind::Lost,
        ),
        (
            "PUT publicIPAddresses",
            AzureFate::OperationFails("QuotaExceeded".to_owned()),
            FaultKind::Refused,
        ),
        (
            "POST updateServices",
            AzureFate::RefusedWithGoodStatus("QuotaExceeded".to_owned()),
            FaultKind::Refused,
        ),
    ] {
        let what = format!("{request} {fate:?}");
        let (got, words) = ensure_with(request, fate.clone()).await;
        assert_eq!(got, kind, "{what}: {words}");
        if let AzureFate::Refused(_, code) | AzureFate::OperationFails(code) = fate {
            assert!(words.contains(&code), "{what}: {words}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_lost_and_trying_again_is_safe() {
    for request in [
        "PUT publicIPAddresses",
        "PUT loadBalancers",
        "POST updateServices",
    ] {
        for fate in [
            AzureFate::DoneAndCut,
            AzureFate::DoneAndFailed(504),
            AzureFate::DoneAndSilent,
            AzureFate::Silent,
        ] {
            let what = format!("{request} {fate:?}");
            let (kind, words) = ensure_with(request, fate).await;
            assert_eq!(kind, FaultKind::Lost, "{what}: {words}");
        }
    }
}

#[tokio::test]
async fn throttling_tells_how_long_to_wait() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    stage.fail("PUT publicIPAddresses", AzureFate::Throttled(1500));
    let (key, spec) = (service("u1"), inbound(&[80]));
    let fault = provider.ensure(&key, &spec, &[]).await;
    let fault = fault.expect_err("it is throttled");
    assert_eq!(fault.kind, FaultKind::Throttled);
    assert_eq!(fault.retry_after, Some(Duration::from_millis(1500)));
    assert_eq!(fault.code, Some(429));
    stage.fail("GET addressLocations", AzureFate::Throttled(10));
    stage.fail(
        "GET serviceGateways/servicegateway/addressLocations",
        AzureFate::Throttled(10),
    );
    let fault = provider.read().await.expect_err("it is throttled");
    assert_eq!(fault.kind, FaultKind::Throttled);
}

#[tokio::test]
async fn an_operation_is_followed_although_a_look_at_it_fails() {
    let stage = Stage::new().await;
    stage.azure.lock().polls = 3;
    stage.fail("GET locations/eastus2/operations", AzureFate::Throttled(1));
    stage.fail(
        "GET locations/eastus2/operations",
        refused(503, "ServiceUnavailable"),
    );
    let provider = stage.provider();
    let (key, spec) = (service("u1"), inbound(&[80]));
    provider.ensure(&key, &spec, &[]).await.expect("it is made");
    let looks = stage.azure.requests("GET locations/eastus2/operations");
    assert!(looks >= 8, "{looks}");
    provider.remove(&key).await.expect("it goes");
    // An operation that nobody knows any more is lost.
    stage.fail(
        "GET locations/eastus2/operations",
        refused(404, "OperationNotFound"),
    );
    let fault = provider.ensure(&key, &spec, &[]).await;
    let fault = fault.expect_err("nobody can tell");
    assert_eq!(fault.kind, FaultKind::Lost, "{fault}");
}

#[tokio::test]
async fn a_service_with_addresses_is_not_removed() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    for (key, spec) in [
        (service("u1"), inbound(&[80])),
        (egress("team-a"), outbound(&[Family::V4])),
    ] {
        provider.ensure(&key, &spec, &[]).await.expect("it is made");
        let here = binding("192.0.2.1", &key);
        let bound = [change("10.0.0.1", &[], std::slice::from_ref(&here))];
        provider.bind(&bound).await.expect("it is bound");
        let fault = provider.remove(&key).await.expect_err("it is used");
        assert_eq!(fault.kind, FaultKind::Conflict, "{fault}");
        assert!(fault.message.contains("OverlayMappings"), "{fault}");
        let holdings = provider.read().await.expect("it is read");
        assert!(holdings.balancers.contains_key(&key));
        let gone = [change("10.0.0.1", &[here], &[])];
        provider.bind(&gone).await.expect("it is taken out");
        provider.remove(&key).await.expect("it goes");
        assert_eq!(stage.own(), [""; 0]);
    }
}

#[tokio::test]
async fn a_removal_that_stops_anywhere_is_known_and_goes_on() {
    for (key, spec, steps) in [
        (
            service("u1"),
            inbound(&[80]),
            vec![
                "POST updateServices",
                "DELETE loadBalancers",
                "POST updateServices",
                "DELETE publicIPAddresses",
            ],
        ),
        (
            egress("team-a"),
            outbound(&[Family::V4, Family::V6]),
            vec![
                "POST updateServices",
                "PUT natGateways",
                "DELETE natGateways",
                "DELETE publicIPAddresses/team-a-pip",
                "DELETE publicIPAddresses/team-a-pip-v6",
            ],
        ),
    ] {
        for step in steps {
            for fate in [AzureFate::DoneAndCut, refused(500, "InternalServerError")] {
                let stage = Stage::new().await;
                let provider = stage.provider();
                provider.ensure(&key, &spec, &[]).await.expect("it is made");
                let what = format!("{step} {fate:?}");
                stage.fail(step, fate);
                let fault = provider.remove(&key).await.expect_err(&what);
                assert_eq!(fault.kind, FaultKind::Lost, "{what}: {fault}");
                let next = stage.provider();
                let holdings = next.read().await.expect("it is read");
                let is_known = holdings.balancers.contains_key(&key);
                assert_eq!(is_known, !stage.own().is_empty(), "{what}");
                next.remove(&key).await.expect("it goes");
                assert_eq!(stage.own(), [""; 0], "{what}");
                assert_eq!(stage.services(), [""; 0], "{what}");
                stage.check_foreign();
            }
        }
    }
}

#[tokio::test]
async fn one_bad_address_or_service_fails_alone() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let key = service("u1");
    let made = provider.ensure(&key, &inbound(&[80]), &[]).await;
    made.expect("it is made");
    stage.azure.lock().poison.insert(address("10.0.0.7"));
    let changes: Vec<_> = (1..=20)
        .map(|one| change(&format!("10.0.0.{one}"), &[], &[binding("192.0.2.1", &key)]))
        .collect();
    let outcomes = send_addresses(&provider, &changes).await;
    let bad: Vec<String> = outcomes
        .iter()
        .filter(|one| one.result.is_err())
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(bad, ["10.0.0.7"]);
    let bound = stage.bound();
    assert_eq!(
        bound.iter().filter(|line| line.ends_with(" u1")).count(),
        19
    );
    // Of services that are registered together, one that the gateway does not take.
    let gateway = lower("serviceGateways/servicegateway");
    let default = stage.content().services["default"].clone();
    if let Some(content) = stage.azure.lock().gateways.get_mut(&gateway) {
        content.services.insert("u3".to_owned(), default);
    }
    let slow = AzureFate::Delayed(Duration::from_millis(300));
    stage.fail("POST updateServices", slow);
    let keys: Vec<_> = (2..6).map(|one| service(&format!("u{one}"))).collect();
    let spec = inbound(&[80]);
    let made = keys.iter().map(|key| provider.ensure(key, &spec, &[]));
    let made = futures::future::join_all(made).await;
    let failed: Vec<bool> = made.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false, false]);
}
