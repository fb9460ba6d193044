//! The pods of a cluster: where they answer, what becomes of one that is killed, and how many there are.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bindery_core::Name;
use bindery_dns::{Key, Server};
use bindery_engine::ports::NameServer as _;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use crate::bulk;
use crate::http::Http;
use crate::objects::{self, CLUSTERS, INSTANCES, PODS, SECRETS, ZONES};
use crate::ready;
use crate::subject::Subject;

/// Where the name server of a pod listens.
const PORT: u16 = 5353;
/// How long something may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(10);
/// What stays as it is for so long has settled.
const SETTLED: Duration = Duration::from_secs(3);

/// A pod whose name server was killed.
pub(crate) struct Healed {
    pub(crate) pod: String,
    /// Until the first condition said so.
    pub(crate) told: Option<Duration>,
    /// Until it served the zone again.
    pub(crate) back: Duration,
    /// Until it served and every condition was as before, for good.
    pub(crate) whole: Duration,
    /// Writes to the API meanwhile, by whomever.
    pub(crate) writes: f64,
}

/// Another number of servers.
pub(crate) struct Scaled {
    /// Until the cluster said Ready with as many.
    pub(crate) time: Duration,
    /// Writes to the API meanwhile, by whomever.
    pub(crate) writes: f64,
}

/// Statuses of conditions, by the object and the type.
type Conditions = BTreeMap<(String, String), String>;

/// Waits until a cluster says Ready with so many servers.
pub(crate) async fn wait_until_ready(http: &mut Http, name: &str, count: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let cluster = fetch(http, &format!("{CLUSTERS}/{name}")).await?;
        let instances = items(http, INSTANCES).await?;
        let are_ready = instances.iter().all(objects::is_ready);
        if objects::is_ready(&cluster) && are_ready && instances.len() == count {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "{name} is not ready after {PATIENCE:?}: {}",
                cluster["status"]
            );
        }
        sleep(POLL).await;
    }
}

/// Where the pods of a cluster answer, the first primary first, and the key that each takes.
pub(crate) async fn servers(http: &mut Http, cluster: &str) -> Result<Vec<(SocketAddr, Key)>> {
    let mut servers = BTreeMap::new();
    for pod in items(http, PODS).await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let Some(instance) = name
            .strip_suffix("-0")
            .filter(|_| name.starts_with(cluster))
        else {
            continue;
        };
        let address: IpAddr = pod["status"]["podIP"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("{name} has no address"))?;
        let secret = fetch(http, &format!("{SECRETS}/{instance}-rndc-key")).await?;
        servers.insert(
            name.to_owned(),
            (SocketAddr::new(address, PORT), key(&secret)?),
        );
    }
    ensure!(!servers.is_empty(), "{cluster} has no pods");
    Ok(servers.into_values().collect())
}

fn key(secret: &Value) -> Result<Key> {
    let part = |name: &str| {
        let text = secret["data"][name].as_str();
        let bytes = STANDARD.decode(text.with_context(|| format!("the Secret has no {name}"))?);
        String::from_utf8(bytes.context("no base64")?).context("no text")
    };
    let text = format!(
        "key \"{}\" {{ algorithm {}; secret \"{}\"; }};",
        part("key-name")?,
        part("algorithm")?,
        part("secret")?
    );
    Key::from_key_file(&text).context("the key cannot be read")
}

/// Kills the name server of a pod, and watches until all is as before.
pub(crate) async fn kill(
    subject: &Subject,
    cluster: &str,
    pod: &str,
    zone: &str,
) -> Result<Healed> {
    let mut http = subject.connect().await?;
    let before = conditions(&mut http, cluster, zone).await?;
    let (server, apex) = (
        server_of(subject, &mut http, pod).await?,
        objects::apex(zone)?,
    );
    let version = bulk::version(subject).await?;
    let begin = Instant::now();
    send_kill(subject, pod).await?;
    let (mut told, mut back, mut whole) = (None, None, None);
    let mut seen = before.clone();
    while whole.is_none_or(|since| begin.elapsed().saturating_sub(since) <= SETTLED) {
        if begin.elapsed() > PATIENCE {
            let other = seen
                .iter()
                .filter(|(at, now)| before.get(*at) != Some(*now));
            let other: Vec<_> = other.collect();
            let gone = before.keys().filter(|at| !seen.contains_key(*at));
            let gone: Vec<_> = gone.collect();
            bail!(
                "{pod} is not healed after {PATIENCE:?}: it answers {}, conditions other {other:?}, gone {gone:?}",
                back.is_some()
            );
        }
        let is_answer = answers(&server, &apex).await;
        if is_answer {
            back.get_or_insert_with(|| begin.elapsed());
        } else {
            back = None;
        }
        seen = conditions(&mut http, cluster, zone).await?;
        let is_as_before = seen == before;
        if !is_as_before {
            told.get_or_insert_with(|| begin.elapsed());
        }
        if is_as_before && is_answer {
            whole.get_or_insert_with(|| begin.elapsed());
        } else {
            whole = None;
        }
        sleep(POLL).await;
    }
    Ok(Healed {
        pod: pod.to_owned(),
        told,
        back: back.unwrap_or_default(),
        whole: whole.unwrap_or_default(),
        writes: bulk::version(subject).await? - version,
    })
}

/// Has a cluster have so many primaries and secondaries, and waits until it does.
pub(crate) async fn scale(
    subject: &Subject,
    cluster: &str,
    (primaries, secondaries): (usize, usize),
) -> Result<Scaled> {
    let mut http = subject.connect().await?;
    let version = bulk::version(subject).await?;
    let begin = Instant::now();
    let change = json!({"spec": {
        "primary": {"replicas": primaries}, "secondary": {"replicas": secondaries},
    }});
    http.patch(&format!("{CLUSTERS}/{cluster}"), &change)
        .await?;
    wait_until_ready(&mut http, cluster, primaries + secondaries).await?;
    let time = begin.elapsed();
    // What comes after it belongs to it too.
    sleep(SETTLED).await;
    Ok(Scaled {
        time,
        writes: bulk::version(subject).await? - version,
    })
}

async fn server_of(subject: &Subject, http: &mut Http, pod: &str) -> Result<Server> {
    let shown = fetch(http, &format!("{PODS}/{pod}")).await?;
    let address = shown["status"]["podIP"].as_str().unwrap_or_default();
    let mut known = subject.addresses().iter().zip(subject.servers()?);
    let found = known.find(|(at, _)| at.ip().to_string() == address);
    let (_, server) = found.with_context(|| format!("{pod} at {address} is not known"))?;
    Ok(server)
}

/// Whether it answers in time.
async fn answers(server: &Server, apex: &Name) -> bool {
    let answer = tokio::time::timeout(Duration::from_millis(200), server.serial(apex)).await;
    matches!(answer, Ok(Ok(_)))
}

async fn send_kill(subject: &Subject, pod: &str) -> Result<()> {
    let file = subject.data().join("pods/default").join(pod);
    let file = file.join("containers/bind9/pid");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let pid: String = text.chars().take_while(char::is_ascii_digit).collect();
    let told = Command::new("kill").args(["-9", &pid]).status().await;
    ensure!(
        told.context("cannot run kill")?.success(),
        "{pid} does not run"
    );
    Ok(())
}

/// Every condition of a cluster, its servers, their pods and a zone.
async fn conditions(http: &mut Http, cluster: &str, zone: &str) -> Result<Conditions> {
    let mut found = Conditions::new();
    let mut objects = vec![fetch(http, &format!("{CLUSTERS}/{cluster}")).await?];
    objects.extend(items(http, INSTANCES).await?);
    objects.extend(items(http, PODS).await?);
    objects.push(fetch(http, &format!("{ZONES}/{zone}")).await?);
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let all = object["status"]["conditions"].as_array();
        for condition in all.into_iter().flatten() {
            let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
            found.insert((name.to_owned(), field("type")), field("status"));
        }
    }
    Ok(found)
}

async fn items(http: &mut Http, path: &str) -> Result<Vec<Value>> {
    let list = fetch(http, path).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

async fn fetch(http: &mut Http, path: &str) -> Result<Value> {
    ready::json(&http.get(path).await?)
}
