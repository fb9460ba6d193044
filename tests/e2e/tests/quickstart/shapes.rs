//! Manifests of the shapes that users of bindy write: every one applies, and becomes Ready.

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};
use crate::production::ask;

crate::cases!(manifests_as_users_of_bindy_write_them_become_ready);

/// A cluster with nearly every field, and a zone of every kind of record on it.
const TEAM: &str = r#"
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: team, labels: {environment: test}}
spec:
  version: "9.18"
  image: {image: "registry.example/bind9:9.18", imagePullPolicy: IfNotPresent}
  primary:
    replicas: 2
    labels: {tier: first}
    allowTransfer: [10.20.0.0/16]
    service: {annotations: {example.com/pool: dns}, spec: {type: ClusterIP}}
    rndcKey: {autoRotate: true, rotateAfter: 720h, algorithm: hmac-sha256}
  secondary: {replicas: 1, labels: {tier: second}}
  acls: {office: [198.51.100.0/24, "2001:db8:1::/48"]}
  global:
    recursion: false
    allowQuery: [any]
    allowTransfer: [office]
    dnssec: {validation: false}
    listenOn: [any]
    listenOnV6: [any]
    bindcarConfig: {port: 8080, logLevel: info, imagePullPolicy: IfNotPresent}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: team}
spec:
  zoneName: team.example
  soaRecord:
    primaryNs: ns1.team.example.
    adminEmail: hostmaster.team.example.
    serial: 2026010101
    refresh: 3600
    retry: 600
    expire: 604800
    negativeTtl: 300
  ttl: 600
  nameServers: [{hostname: ns1.team.example., ipv4Address: 192.0.2.1}, {hostname: ns2.team.example., ipv4Address: 192.0.2.2}]
  bind9InstancesFrom:
  - selector: {matchLabels: {bindy.firestoned.io/cluster: team}}
  recordsFrom:
  - selector: {matchExpressions: [{key: zone, operator: In, values: [team]}]}
"#;

/// Records of every kind: object, kind, and the rest of the spec.
const RECORDS: [(&str, &str, &str); 9] = [
    (
        "ARecord",
        "www",
        "name: www, ipv4Addresses: [192.0.2.10, 192.0.2.11], ttl: 300",
    ),
    (
        "AAAARecord",
        "www",
        "name: www, ipv6Addresses: ['2001:db8::10']",
    ),
    (
        "CNAMERecord",
        "blog",
        "name: blog, target: www.team.example.",
    ),
    (
        "MXRecord",
        "mail",
        "name: '@', priority: 10, mailServer: mx.team.example.",
    ),
    ("TXTRecord", "spf", "name: '@', text: ['v=spf1 -all']"),
    (
        "NSRecord",
        "sub",
        "name: sub, nameserver: ns.elsewhere.example.",
    ),
    (
        "SRVRecord",
        "sip",
        "name: _sip._tcp, priority: 10, weight: 5, port: 5060, target: www.team.example.",
    ),
    (
        "CAARecord",
        "caa",
        "name: '@', flags: 0, tag: issue, value: ca.example",
    ),
    ("PTRRecord", "ptr", "name: ptr, target: www.team.example."),
];

/// A cluster for the whole machine whose sidecar has the image of bindcar, and a zone that names it.
const PLATFORM: &str = r#"
apiVersion: bindy.firestoned.io/v1beta1
kind: ClusterBind9Provider
metadata: {name: platform}
spec:
  namespace: default
  version: "9.18"
  primary: {replicas: 1}
  secondary: {replicas: 1}
  global:
    recursion: false
    allowQuery: ["0.0.0.0/0", "::/0"]
    bindcarConfig:
      image: registry.example/bindcar:latest
      resources: {requests: {cpu: 50m, memory: 64Mi}}
      envVars: [{name: RUST_LOG, value: info}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: platform}
spec:
  zoneName: platform.example
  clusterRef: platform
  soaRecord: {primaryNs: ns1.platform.example., adminEmail: hostmaster@platform.example}
"#;

/// Servers of their own: one that keeps its zones and signs them, and one with files of its author's.
const ALONE: &str = r#"
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Instance
metadata: {name: keeper, labels: {purpose: keeper}}
spec:
  clusterRef: ""
  role: primary
  replicas: 1
  storage: {storageType: persistentVolumeClaim, persistentVolumeClaim: {size: 1Gi, accessModes: [ReadWriteOnce]}}
  config:
    allowQuery: [any]
    dnssec: {signing: {enabled: true, policy: default, algorithm: ECDSAP256SHA256}}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: keeper}
spec:
  zoneName: keeper.example
  dnssecPolicy: default
  bind9InstancesFrom: [{selector: {matchLabels: {purpose: keeper}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: own}
data:
  named.conf.zones: |
    zone "own.example" { type primary; file "/srv/own/own.db"; };
  own.db: |
    $TTL 60
    @ SOA ns hostmaster 1 60 60 60 60
    @ NS ns
    ns A 192.0.2.53
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Instance
metadata: {name: own}
spec:
  clusterRef: ""
  role: primary
  configMapRefs: {namedConfZones: own}
  volumes: [{name: own, configMap: {name: own}}, {name: scratch, emptyDir: {}}]
  volumeMounts: [{name: own, mountPath: /srv/own}, {name: scratch, mountPath: /srv/scratch}]
"#;

fn manifests_as_users_of_bindy_write_them_become_ready(_: Server) -> Result<()> {
    let mut machine = Machine::idle(Server::Builtin)?;
    let records = RECORDS.map(|(kind, name, spec)| {
        format!(
            "---\napiVersion: bindy.firestoned.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{zone: \
             team}}}}\nspec: {{{spec}}}\n"
        )
    });
    machine.write("team.yaml", &(TEAM.to_owned() + &records.concat()))?;
    machine.write("platform.yaml", PLATFORM)?;
    machine.write("alone.yaml", ALONE)?;
    machine.start()?;
    // Three clusters of which one is made, seven instances, three zones and the records.
    let count = 3 + 7 + 3 + RECORDS.len();
    let kinds = "cb9p,b9c,b9,dnszones,arecords,aaaarecords,cnamerecords,mxrecords,txtrecords,nsrecords,srvrecords,\
                 caarecords,ptrrecords";
    let template = "jsonpath={range .items[*]}{.kind}/{.metadata.name} \
                    {.status.conditions[?(@.type=='Ready')].status} \
                    {.status.conditions[?(@.type=='Ready')].reason}{\"\\n\"}{end}";
    let mut last = String::new();
    let ready = until("all is ready", || {
        let told = machine.kubectl(&["get", kinds, "-o", template]);
        last = told.unwrap_or_default();
        let is_ready = last.lines().all(|line| line.contains(" True "));
        Ok((is_ready && last.lines().count() == count).then_some(()))
    });
    ready.with_context(|| last.clone())?;
    let path = "jsonpath={.status.podIP}";
    for (pod, question, wanted) in [
        (
            "team-secondary-0-0",
            "blog.team.example CNAME",
            "www.team.example.",
        ),
        (
            "platform-secondary-0-0",
            "platform.example NS",
            "ns1.platform.example.",
        ),
        ("own-0", "ns.own.example A", "192.0.2.53"),
    ] {
        let address = machine.kubectl(&["get", "pod", pod, "-o", path])?;
        let answer = ask(address.trim(), question)?;
        ensure!(answer == wanted, "{pod}: {answer}");
    }
    machine.says(
        "zone/keeper",
        ".status.conditions[?(@.type=='Signed')].reason",
        "Signed",
    )
}
