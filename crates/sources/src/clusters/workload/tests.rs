//! What is made for an instance.

use super::*;

fn made(edit: impl FnOnce(&mut Bind9InstanceSpec), files: &ConfigFiles) -> Vec<Value> {
    let mut spec = Bind9InstanceSpec {
        role: "primary".into(),
        ..Bind9InstanceSpec::default()
    };
    edit(&mut spec);
    workload(&Workload {
        name: "dns-primary-0",
        namespace: "dns",
        uid: "u",
        spec: &spec,
        set: None,
        files,
        image: "bindery:1",
        key: "a1",
        signing: None,
        makes_no_keys: false,
    })
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = objects.iter().find(|one| one["kind"] == kind);
    found.expect("it is among them")
}

#[test]
fn everything_belongs_to_the_instance_and_can_be_watched_alone() {
    for object in made(|_| {}, &ConfigFiles::new()) {
        let metadata = &object["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u");
        assert_eq!(metadata["labels"]["app.kubernetes.io/part-of"], "bindy");
        assert_eq!(metadata["namespace"], "dns");
    }
}

#[test]
fn another_configuration_replaces_pods_and_the_same_does_not() {
    let hash_of = |text: &str| {
        let files = ConfigFiles::from([("named.conf".to_owned(), text.to_owned())]);
        let objects = made(|_| {}, &files);
        let template = &find(&objects, "StatefulSet")["spec"]["template"];
        template["metadata"]["annotations"][CONFIG_HASH_ANNOTATION].clone()
    };
    assert_eq!(hash_of("a"), hash_of("a"));
    assert_ne!(hash_of("a"), hash_of("b"));
}

#[test]
fn another_key_replaces_only_pods_whose_sidecar_reads_it_once() {
    let annotations = |sidecar: Value| {
        let objects = made(
            |spec| spec.bindcar_config = serde_json::from_value(sidecar).ok(),
            &ConfigFiles::from([("keys/keys.conf".to_owned(), "x".to_owned())]),
        );
        let data = &find(&objects, "ConfigMap")["data"];
        assert_eq!(*data, json!({}), "keys are in the Secret");
        find(&objects, "StatefulSet")["spec"]["template"]["metadata"]["annotations"].clone()
    };
    assert_eq!(
        annotations(json!({ "image": "bindcar:1" }))[KEY_ANNOTATION],
        "a1"
    );
    assert_eq!(annotations(Value::Null).get(KEY_ANNOTATION), None);
}

#[test]
fn storage_is_what_is_asked_for() {
    let spec_of = |storage: Value| {
        let objects = made(
            |spec| spec.storage = serde_json::from_value(storage).ok(),
            &ConfigFiles::new(),
        );
        find(&objects, "StatefulSet")["spec"].clone()
    };
    let claim = spec_of(json!({
        "storageType": "persistentVolumeClaim",
        "persistentVolumeClaim": { "size": "5Gi", "storageClassName": "fast" },
    }));
    let template = &claim["volumeClaimTemplates"][0]["spec"];
    assert_eq!(template["resources"]["requests"]["storage"], "5Gi");
    assert_eq!(template["storageClassName"], "fast");
    let volumes = |spec: &Value| -> Vec<Value> {
        let all = spec["template"]["spec"]["volumes"].as_array().cloned();
        let all = all.unwrap_or_default().into_iter();
        all.filter(|one| one["name"] == "data").collect()
    };
    assert!(volumes(&claim).is_empty());
    let existing = spec_of(json!({
        "storageType": "persistentVolumeClaim",
        "persistentVolumeClaim": { "claimName": "mine" },
    }));
    assert_eq!(
        volumes(&existing)[0]["persistentVolumeClaim"]["claimName"],
        "mine"
    );
    let empty = spec_of(json!({ "emptyDir": { "sizeLimit": "1Gi" } }));
    assert_eq!(volumes(&empty)[0]["emptyDir"]["sizeLimit"], "1Gi");
}

#[test]
fn the_key_is_the_one_that_is_named() {
    let name = |spec: Value| {
        let spec = serde_json::from_value(spec).expect("a fixture is a spec");
        key_secret_name("dns-0", &spec)
    };
    assert_eq!(name(json!({})), "dns-0-rndc-key");
    assert_eq!(
        name(json!({ "rndcKey": { "secretRef": { "name": "mine" } } })),
        "dns-0-rndc-key",
        "it is copied"
    );
    assert_eq!(
        name(json!({ "rndcKey": { "secret": { "metadata": { "name": "new" } } } })),
        "new"
    );
}

#[test]
fn the_sidecar_is_not_on_the_service_for_those_who_ask() {
    let objects = made(|_| {}, &ConfigFiles::new());
    let service = objects
        .iter()
        .find(|one| one["metadata"]["name"] == "dns-primary-0");
    let ports = service.expect("it is there")["spec"]["ports"]
        .as_array()
        .cloned();
    let ports = ports.unwrap_or_default();
    assert!(ports.iter().all(|port| port["port"] == 53), "{ports:?}");
}

#[test]
fn the_api_has_a_service_of_its_own_where_it_is_asked_for() {
    let service = |spec: Value| {
        let objects = made(
            |instance| instance.bindcar_config = serde_json::from_value(spec).ok(),
            &ConfigFiles::new(),
        );
        let found = objects
            .iter()
            .find(|one| one["metadata"]["name"] == "dns-primary-0-api");
        found.map(|one| one["spec"].clone())
    };
    assert_eq!(service(json!({ "port": 9000 })), None);
    let plain = service(json!({ "port": 9000, "serviceSpec": { "type": "NodePort" } }));
    let plain = plain.expect("it is asked for");
    assert_eq!(plain["type"], "NodePort");
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 9000 }]);
    assert_eq!(plain["ports"], ports);
    assert_eq!(plain["selector"]["instance"], "dns-primary-0");
    // Ports are the author's; where they lead and whom they choose is not.
    let given = service(json!({ "serviceSpec": {
        "selector": { "app": "other" },
        "ports": [{ "port": 443, "nodePort": 30443, "targetPort": 5353 }],
    } }));
    let given = given.expect("it is asked for");
    let ports = json!([
        { "name": "http", "port": 443, "nodePort": 30443, "protocol": "TCP", "targetPort": 8080 },
    ]);
    assert_eq!(given["ports"], ports);
    assert_eq!(
        given["selector"],
        json!({ "instance": "dns-primary-0", "app": "bind9" })
    );
}

#[test]
fn keys_that_sign_zones_are_given_to_the_sidecar() {
    let api = |signing: Option<SigningKeys>, makes_no_keys: bool| {
        let spec = Bind9InstanceSpec {
            role: "primary".into(),
            ..Bind9InstanceSpec::default()
        };
        let objects = workload(&Workload {
            name: "dns-0",
            namespace: "dns",
            uid: "u",
            spec: &spec,
            set: None,
            files: &ConfigFiles::new(),
            image: "bindery:1",
            key: "a1",
            signing: signing.as_ref(),
            makes_no_keys,
        });
        let pod = find(&objects, "StatefulSet")["spec"]["template"]["spec"].clone();
        let volume = |one: &&Value| one["name"] == "signing-keys";
        let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
        let volume = volumes.iter().find(volume).cloned();
        let env = pod["containers"][1]["env"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let env: Vec<String> = env
            .iter()
            .filter_map(|one| one["name"].as_str())
            .filter(|name| name.starts_with("BINDERY_SIGNING") || name.starts_with("BINDERY_MAKE"))
            .map(str::to_owned)
            .collect();
        (volume.map(|one| one["secret"].clone()), env)
    };
    assert_eq!(api(None, false), (None, vec![]));
    let (volume, env) = api(Some(SigningKeys::Given("mine".into())), true);
    assert_eq!(volume.expect("it is there")["optional"], false);
    assert_eq!(
        env,
        ["BINDERY_SIGNING_KEYS_DIR", "BINDERY_MAKE_NO_SIGNING_KEYS"]
    );
    let (volume, _) = api(Some(SigningKeys::Kept("own".into())), false);
    let volume = volume.expect("it is there");
    assert_eq!(
        (&volume["secretName"], &volume["optional"]),
        (&json!("own"), &json!(true))
    );
}
