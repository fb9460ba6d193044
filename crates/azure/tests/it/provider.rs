//! Every operation of the provider, and what it leaves alone.

use bindery_azure::AzureCredential;
use bindery_core::FaultKind;
use bindery_core::balancers::{BalancerKey, Family};
use bindery_engine::balancing::LoadBalancer as _;
use bindery_testkit::azure::AzureFate;
use serde_json::{Value, json};

use crate::stage::{Stage, binding, change, egress, inbound, lower, outbound, service};

#[tokio::test]
async fn a_service_gets_an_address_is_read_back_and_goes() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let (key, spec) = (service("U1"), inbound(&[80, 443]));
    let frontage = provider.ensure(&key, &spec, &[]).await.expect("it is made");
    assert_eq!(frontage.addresses.len(), 1);
    assert_eq!(
        stage.own(),
        ["loadbalancers/u1", "publicipaddresses/u1-pip"]
    );
    assert_eq!(stage.services(), ["u1"]);
    let balancer = stage.resource("loadBalancers/u1");
    assert_eq!(balancer["sku"]["name"], "Service");
    let rule = &balancer["properties"]["loadBalancingRules"][0];
    assert_eq!(rule["name"], "rule-tcp-80");
    assert_eq!(rule["properties"]["backendPort"], 8080);
    assert_eq!(rule["properties"]["enableTcpReset"], true);
    assert_eq!(rule["properties"]["idleTimeoutInMinutes"], 4);
    assert_eq!(balancer["tags"]["bindery-cluster"], "blue");
    let ip = stage.resource("publicIPAddresses/u1-pip");
    assert_eq!(ip["sku"]["name"], "StandardV2");
    let registered = &stage.content().services["u1"]["properties"];
    assert_eq!(registered["serviceType"], "Inbound");
    assert_eq!(registered["publicNatGatewayId"], Value::Null);
    let pool = &registered["loadBalancerBackendPools"][0];
    let network = pool["properties"]["virtualNetwork"]["id"].as_str();
    assert!(network.is_some_and(|id| id.ends_with("/virtualNetworks/vnet")));

    let holdings = stage.provider().read().await.expect("it is read");
    let held = &holdings.balancers[&key];
    assert_eq!(held.frontage, frontage);
    assert_eq!(held.digest, Some(spec.digest()));
    assert_eq!(holdings.balancers.len(), 1);

    provider.remove(&key).await.expect("it goes");
    assert_eq!(stage.own(), [""; 0]);
    assert_eq!(stage.services(), [""; 0]);
    provider.remove(&key).await.expect("nothing is there");
    stage.check_foreign();
}

#[tokio::test]
async fn what_stands_is_not_sent_again() {
    let stage = Stage::new().await;
    let (key, spec) = (service("u1"), inbound(&[80]));
    let provider = stage.provider();
    let first = provider.ensure(&key, &spec, &[]).await.expect("it is made");
    let changes = stage.azure.changes();
    let again = provider.ensure(&key, &spec, &[]).await.expect("it stands");
    assert_eq!((again, stage.azure.changes()), (first.clone(), changes));
    // A changed spec is one request, and the address stays.
    let wider = inbound(&[80, 443]);
    let wide = provider.ensure(&key, &wider, &[]).await.expect("it stands");
    assert_eq!((wide, stage.azure.changes()), (first, changes + 1));
    let rules = &stage.resource("loadBalancers/u1")["properties"]["loadBalancingRules"];
    assert_eq!(rules.as_array().map(Vec::len), Some(2));
    let narrow = provider.ensure(&key, &spec, &[]).await;
    narrow.expect("a port that is taken back leaves the rules");
    let rules = &stage.resource("loadBalancers/u1")["properties"]["loadBalancingRules"];
    assert_eq!(rules.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_label_gets_a_nat_gateway_whose_families_change() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let key = egress("team-a");
    let both = outbound(&[Family::V4, Family::V6]);
    let frontage = provider.ensure(&key, &both, &[]).await.expect("it is made");
    assert_eq!(frontage.addresses.len(), 2);
    let all = [
        "natgateways/team-a",
        "publicipaddresses/team-a-pip",
        "publicipaddresses/team-a-pip-v6",
    ];
    assert_eq!(stage.own(), all);
    let held = stage.provider().read().await.expect("it is read");
    assert_eq!(held.balancers[&key].digest, Some(both.digest()));
    let one = outbound(&[Family::V4]);
    let frontage = provider.ensure(&key, &one, &[]).await.expect("it changes");
    assert_eq!(frontage.addresses.len(), 1);
    assert_eq!(stage.own(), all[..2]);
    let held = stage.provider().read().await.expect("it is read");
    assert_eq!(held.balancers[&key].digest, Some(one.digest()));
    provider.remove(&key).await.expect("it goes");
    assert_eq!(stage.own(), [""; 0]);
    assert_eq!(stage.services(), [""; 0]);
    stage.check_foreign();
}

#[tokio::test]
async fn addresses_are_bound_moved_and_taken_out() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let (web, out) = (service("u1"), egress("team-a"));
    let made = provider.ensure(&web, &inbound(&[80]), &[]).await;
    made.expect("it is made");
    let made = provider.ensure(&out, &outbound(&[Family::V4]), &[]).await;
    made.expect("it is made");
    let here = binding("192.0.2.1", &web);
    let changes = [
        change("10.0.0.1", &[], &[here.clone(), binding("192.0.2.1", &out)]),
        change("10.0.0.2", &[], std::slice::from_ref(&here)),
    ];
    let outcomes = provider.bind(&changes).await.expect("they are bound");
    assert!(outcomes.iter().all(|one| one.result.is_ok()));
    let theirs = "192.0.2.9 10.9.0.1 theirs";
    let wanted = [
        "192.0.2.1 10.0.0.1 team-a,u1",
        "192.0.2.1 10.0.0.2 u1",
        theirs,
    ];
    assert_eq!(stage.bound(), wanted);
    let holdings = provider.read().await.expect("they are read");
    let held = holdings.addresses.iter();
    let held: Vec<_> = held
        .map(|(at, all)| (at.to_string(), all.clone()))
        .collect();
    let sent = changes.iter();
    let sent: Vec<_> = sent
        .map(|one| (one.address.to_string(), one.wanted.clone()))
        .collect();
    assert_eq!(held, sent);
    let moved = [
        change(
            "10.0.0.2",
            std::slice::from_ref(&here),
            &[binding("192.0.2.2", &web)],
        ),
        change("10.0.0.1", &[here, binding("192.0.2.1", &out)], &[]),
    ];
    provider.bind(&moved).await.expect("they are bound");
    assert_eq!(stage.bound(), ["192.0.2.2 10.0.0.2 u1", theirs]);
    stage.check_foreign();
}

#[tokio::test]
async fn what_others_bound_to_an_address_stays() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let web = service("u1");
    let made = provider.ensure(&web, &inbound(&[80]), &[]).await;
    made.expect("it is made");
    provider.read().await.expect("it is read");
    let ours = binding("192.0.2.9", &web);
    let bound = [change("10.9.0.1", &[], std::slice::from_ref(&ours))];
    provider.bind(&bound).await.expect("it is bound");
    assert_eq!(stage.bound(), ["192.0.2.9 10.9.0.1 theirs,u1"]);
    let gone = [change("10.9.0.1", &[ours], &[])];
    provider.bind(&gone).await.expect("it is taken out");
    assert_eq!(stage.bound(), ["192.0.2.9 10.9.0.1 theirs"]);
    stage.check_foreign();
}

#[tokio::test]
async fn resources_of_others_are_neither_taken_nor_removed() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    provider.read().await.expect("it is read");
    let ours = inbound(&[80]);
    for (key, spec, kind) in [
        (service("theirs"), &ours, FaultKind::Refused),
        (service("stray"), &ours, FaultKind::Refused),
        (
            egress("untagged"),
            &outbound(&[Family::V4]),
            FaultKind::Refused,
        ),
        (
            egress("theirs"),
            &outbound(&[Family::V4]),
            FaultKind::Refused,
        ),
        (
            egress("default-natgw"),
            &outbound(&[Family::V4]),
            FaultKind::Invalid,
        ),
        (
            egress("Not-Lower"),
            &outbound(&[Family::V4]),
            FaultKind::Invalid,
        ),
    ] {
        let fault = provider.ensure(&key, spec, &[]).await;
        let fault = fault.expect_err("it is not ours");
        assert_eq!(fault.kind, kind, "{key}: {fault}");
        provider
            .remove(&key)
            .await
            .expect("there is nothing of ours");
    }
    let holdings = provider.read().await.expect("it is read");
    assert!(holdings.balancers.is_empty(), "{holdings:?}");
    assert!(holdings.addresses.is_empty(), "{holdings:?}");
    stage.check_foreign();
}

#[tokio::test]
async fn what_somebody_changed_is_known_as_changed() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let (key, spec) = (service("u1"), inbound(&[80]));
    provider.ensure(&key, &spec, &[]).await.expect("it is made");
    let path = lower("loadBalancers/u1");
    {
        let mut azure = stage.azure.lock();
        let balancer = azure.resources.get_mut(&path).expect("it is there");
        balancer["properties"]["loadBalancingRules"][0]["properties"]["backendPort"] = json!(1);
        balancer["tags"]["team"] = json!("payments");
    }
    let holdings = provider.read().await.expect("it is read");
    assert_eq!(holdings.balancers[&key].digest, None);
    provider
        .ensure(&key, &spec, &[])
        .await
        .expect("it is mended");
    let holdings = provider.read().await.expect("it is read");
    assert_eq!(holdings.balancers[&key].digest, Some(spec.digest()));
    // Tags that somebody gave it stay.
    let balancer = stage.resource("loadBalancers/u1");
    assert_eq!(balancer["tags"]["team"], "payments");
    // A service that somebody took out is registered again.
    let gateway = lower("serviceGateways/servicegateway");
    let taken = {
        let mut azure = stage.azure.lock();
        let content = azure.gateways.get_mut(&gateway).expect("it is there");
        content.services.remove("u1")
    };
    assert!(taken.is_some());
    let holdings = provider.read().await.expect("it is read");
    assert_eq!(holdings.balancers[&key].digest, None);
    let early = [change("10.0.0.1", &[], &[binding("192.0.2.1", &key)])];
    let outcomes = provider.bind(&early).await.expect("others would go on");
    let fault = outcomes[0].result.as_ref().expect_err("nobody takes it");
    assert_eq!(fault.kind, FaultKind::Missing);
    provider
        .ensure(&key, &spec, &[])
        .await
        .expect("it is mended");
    assert_eq!(stage.services(), ["u1"]);
}

#[tokio::test]
async fn services_that_wait_are_registered_together() {
    let stage = Stage::new().await;
    let provider = stage.provider();
    let slow = AzureFate::Delayed(std::time::Duration::from_millis(300));
    stage.fail("POST updateServices", slow);
    let keys: Vec<_> = (0..8).map(|one| service(&format!("u{one}"))).collect();
    let spec = inbound(&[80]);
    let made = keys.iter().map(|key| provider.ensure(key, &spec, &[]));
    for one in futures::future::join_all(made).await {
        one.expect("it is made");
    }
    assert_eq!(stage.services().len(), 8);
    // While the first is on its way the others gather.
    let requests = stage.azure.requests("POST updateServices");
    assert!(requests < 8, "{requests}");
}

#[tokio::test]
async fn tokens_come_from_each_kind_of_identity_and_are_kept() {
    let stage = Stage::new().await;
    let folder = tempfile::tempdir().expect("there is room");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is ours");
        path
    };
    let (tenant, client) = ("tenant".to_owned(), "client".to_owned());
    for credential in [
        AzureCredential::WorkloadIdentity {
            tenant: tenant.clone(),
            client: client.clone(),
            token_file: write("token", "trusted\n"),
        },
        AzureCredential::ClientSecretFile {
            tenant: tenant.clone(),
            client: client.clone(),
            path: write("secret", "right"),
        },
        AzureCredential::ManagedIdentity {
            client: Some(client.clone()),
        },
    ] {
        let mut settings = stage.settings();
        settings.credential = credential;
        let provider = bindery_azure::AzureBalancer::new(settings).expect("they are right");
        let before = stage.azure.lock().tokens.len();
        provider.read().await.expect("it is let in");
        provider.read().await.expect("it is let in");
        assert_eq!(stage.azure.lock().tokens.len(), before + 1);
        // A token that is no longer accepted is replaced at once.
        stage.azure.lock().tokens.clear();
        provider.read().await.expect("it is let in");
        assert!(!stage.azure.lock().tokens.is_empty());
    }
    let mut settings = stage.settings();
    settings.credential = AzureCredential::ClientSecretFile {
        tenant,
        client,
        path: write("wrong", "not-to-be-told"),
    };
    let provider = bindery_azure::AzureBalancer::new(settings).expect("they are right");
    let fault = provider.read().await.expect_err("it is not let in");
    assert_eq!(fault.kind, FaultKind::Denied);
    assert!(fault.message.contains("AADSTS7000215"), "{fault}");
    assert!(!fault.message.contains("not-to-be-told"), "{fault}");
}

#[tokio::test]
async fn a_removal_whose_last_answer_was_lost_makes_no_service_again() {
    for key in [service("u1"), egress("out")] {
        let stage = Stage::new().await;
        let provider = stage.provider();
        let spec = match key {
            BalancerKey::Service(_) => inbound(&[80]),
            BalancerKey::Egress(_) => outbound(&[Family::V4]),
        };
        provider.ensure(&key, &spec, &[]).await.expect("it is made");
        stage.fail("DELETE publicIPAddresses", AzureFate::DoneAndFailed(504));
        provider.remove(&key).await.expect_err("nobody knows");
        assert_eq!(stage.own(), [""; 0], "it was done");
        // The process ends after the first thing that is done next.
        stage.fail("POST updateServices", AzureFate::DoneAndFailed(504));
        let _ended = stage.provider().remove(&key).await;
        assert_eq!(stage.services(), [""; 0], "{key}");
    }
}
