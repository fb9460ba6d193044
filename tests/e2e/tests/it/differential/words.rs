//! Requests that both servers must answer with the same words: kinds that are not the one of the path,
//! patches that do not fit, and Services.

use bindery_e2e::http::{Answer, Call, Http};
use http::Method;
use serde_json::{Value, json};

use super::requests;

/// A namespace of its own on both servers.
const NAMESPACE: &str = "differential-words";

/// What is sent, in this order: method, where (`A` records, `C`onfigMaps, `S`ervices), body.
const REQUESTS: &str = r#"
POST A {"apiVersion":"G","kind":"AAAARecord","metadata":{"name":"x"},"spec":{"name":"x","ipv4Addresses":["192.0.2.1"]}}
POST A {"apiVersion":"G","kind":"TXTRecord","metadata":{"name":"x"},"spec":{"name":"x","text":["a"]}}
POST A {"apiVersion":"G","kind":"ARecordList","items":[]}
POST A {"apiVersion":"G","metadata":{"name":"x"},"spec":{"name":"x"}}
POST A {"kind":"ARecord","metadata":{"name":"x"},"spec":{"name":"x"}}
POST A {"apiVersion":"bindy.firestoned.io/v1","kind":"ARecord","metadata":{"name":"x"}}
POST A {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}
POST A {"apiVersion":"v1","kind":"List","items":[]}
POST A {"apiVersion":"G","kind":"ARecord","metadata":{"name":"x"}}
POST A {"apiVersion":"G","kind":"ARecord","metadata":{"name":"x"},"spec":"text"}
POST C {"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}
POST C {"apiVersion":"v1","kind":"Nonsense","metadata":{"name":"x"}}
POST C {"apiVersion":"v1","kind":"List","items":[]}
POST C {"apiVersion":"v1","kind":"ConfigMapList","items":[]}
POST C {"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}
POST C {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}
POST C {"apiVersion":"G","kind":"ARecord","metadata":{"name":"x"}}
POST A {"apiVersion":"G","kind":"ARecord","metadata":{"name":"p"},"spec":{"name":"p","ipv4Addresses":["192.0.2.1"]}}
POST C {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p"},"data":{"a":"b"}}
PUT A/p {"apiVersion":"G","kind":"TXTRecord","metadata":{"name":"p"},"spec":{"name":"p"}}
PUT A/p {"apiVersion":"bindy.firestoned.io/v1","kind":"ARecord","metadata":{"name":"p"}}
PUT C/p {"apiVersion":"v1","kind":"Secret","metadata":{"name":"p"}}
json A/p [{"op":"remove","path":"/spec/missing"}]
json A/p [{"op":"test","path":"/metadata/name","value":"z"}]
json A/p [{"op":"add","path":"/a/b/c","value":1}]
json A/p [{"op":"replace","path":"/spec/ipv4Addresses/7","value":"192.0.2.9"}]
json A/p [{"op":"move","from":"/nope","path":"/data"}]
json A/p [{"op":"nonsense","path":"/data"}]
json A/p [{"op":"replace","path":"/kind","value":"Other"}]
json A/p [{"op":"replace","path":"/apiVersion","value":"v9"}]
json C/p [{"op":"remove","path":"/data/missing"}]
json C/p [{"op":"test","path":"/data/a","value":"c"}]
merge A/p {"kind":"Other"}
merge A/p {"spec":"text"}
merge A/p {"spec":null}
apply A/p {"apiVersion":"G","kind":"TXTRecord","metadata":{"name":"p"},"spec":{"name":"p"}}
apply A/q {"apiVersion":"bindy.firestoned.io/v1","kind":"ARecord","metadata":{"name":"q"}}
apply C/p {"apiVersion":"v1","kind":"Secret","metadata":{"name":"p"}}
POST S {"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}
POST S {"metadata":{"name":"b"},"spec":{"clusterIP":"None"}}
POST S {"metadata":{"name":"c"},"spec":{"clusterIP":"None","selector":{"a":"b"},"ports":[{"port":80}]}}
POST S {"metadata":{"name":"d"},"spec":{"type":"ExternalName","externalName":"a.example"}}
POST S {"metadata":{"name":"e"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}
POST S {"metadata":{"name":"f"},"spec":{"type":"NodePort","ports":[{"port":80}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":0}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":70000}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"targetPort":80}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":-1,"targetPort":5}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":80,"targetPort":70000}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":80,"targetPort":"BAD NAME"}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":80,"targetPort":"a--name-that-is-long-"}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":80,"protocol":"XX"}]}}
POST S {"metadata":{"name":"x"},"spec":{"ports":[{"port":80},{"port":81}]}}
POST S {"metadata":{"name":"x"},"spec":{"clusterIP":"banana","ports":[{"port":80}]}}
PUT S/a {"metadata":{"name":"a"},"spec":{"ports":[{"port":81}]}}
merge S/a {"spec":{"clusterIP":"10.0.0.77"}}
merge S/a {"spec":{"clusterIP":"None"}}
merge S/a {"spec":{"clusterIP":null}}
merge S/a {"spec":{"type":"NodePort"}}
merge S/a {"spec":{"type":"LoadBalancer"}}
merge S/a {"spec":{"type":"ClusterIP"}}
merge S/a {"spec":{"type":"ExternalName","externalName":"b.example"}}
merge S/a {"spec":{"type":"ClusterIP"}}
"#;

/// Sends them all to both, and tells of every difference.
pub(super) async fn play(real: &Http, embedded: &Http) -> Result<(), String> {
    let mut differences = Vec::new();
    for http in [real, embedded] {
        send(http, requests::namespace(NAMESPACE)).await?;
    }
    for line in REQUESTS.lines().filter(|line| !line.is_empty()) {
        let theirs = said(&send(real, call(line)?).await?);
        let ours = said(&send(embedded, call(line)?).await?);
        if theirs != ours {
            differences.push(format!("{line}\n  real     {theirs}\n  embedded {ours}"));
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(differences.join("\n"))
}

async fn send(http: &Http, call: Call) -> Result<Answer, String> {
    http.send(call).await.map_err(|fault| format!("{fault:#}"))
}

fn call(line: &str) -> Result<Call, String> {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().ok_or_else(|| format!("{line} is too short"));
    let (verb, place, body) = (word()?, word()?, word()?);
    let (method, content_type) = match verb {
        "POST" => (Method::POST, "application/json"),
        "PUT" => (Method::PUT, "application/json"),
        "json" => (Method::PATCH, "application/json-patch+json"),
        "merge" => (Method::PATCH, "application/merge-patch+json"),
        "apply" => (Method::PATCH, "application/apply-patch+yaml"),
        other => return Err(format!("{other} is no verb")),
    };
    let (kind, name) = place.split_once('/').unwrap_or((place, ""));
    let resource = match kind {
        "A" => format!("/apis/bindy.firestoned.io/v1beta1/namespaces/{NAMESPACE}/arecords"),
        "C" => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
        _ => format!("/api/v1/namespaces/{NAMESPACE}/services"),
    };
    let name = if name.is_empty() {
        String::new()
    } else {
        format!("/{name}")
    };
    let target = format!("{resource}{name}?fieldManager=words");
    let body = body.replace("\"G\"", "\"bindy.firestoned.io/v1beta1\"");
    Ok(Call::new(method, target).body(content_type, body))
}

/// What an answer says, but for what no two servers share.
fn said(answer: &Answer) -> Value {
    let mut json = answer.json.clone();
    if json["kind"] == "Status" {
        return json!([
            answer.code,
            json["reason"],
            json["message"],
            json["details"]
        ]);
    }
    let spec = &mut json["spec"];
    // That there are addresses counts, not which.
    if spec["clusterIP"].is_string() && spec["clusterIP"] != "None" {
        let is_same = spec["clusterIPs"][0] == spec["clusterIP"];
        spec["clusterIP"] = json!("given");
        spec["clusterIPs"] = json!(is_same);
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if let Some(number) = port.get_mut("nodePort") {
            let number_in_range = number
                .as_u64()
                .is_some_and(|one| (30_000..32_768).contains(&one));
            *number = json!(number_in_range);
        }
    }
    // A change of type leaves owners of fields that are gone on the real server, so only new objects count.
    let entries = json["metadata"]["managedFields"].as_array();
    let fields: Vec<&Value> = entries
        .filter(|_| answer.code == 201)
        .into_iter()
        .flatten()
        .map(|entry| &entry["fieldsV1"])
        .collect();
    json!([answer.code, json["spec"], json["data"], fields])
}
