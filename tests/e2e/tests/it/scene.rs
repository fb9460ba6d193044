//! What one case sees: a namespace of its own on some subject, and assertions that show the answer.

use std::future::Future;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bindery_e2e::http::{Answer, Call, Http, PATIENCE, WatchStream};
use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout};

use crate::subject::{Subject, kubectl_cache};
pub(crate) use crate::verdict::{Expect, cause, config_map, names, version, widget};

/// How often a condition is looked at again.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The body of a case.
pub(crate) type Body = Box<dyn FnOnce(Scene) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// One named case of a suite.
pub(crate) struct Case {
    /// Module and function, as in `battery::create::…`.
    pub(crate) name: String,
    /// What it does.
    pub(crate) run: Body,
}

/// Lists the cases of a module; one that is not listed is dead code and does not compile in CI.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::scene::Case> {
            vec![$($crate::scene::Case {
                name: concat!(module_path!(), "::", stringify!($name)).replace("it::", ""),
                run: Box::new(|scene| Box::pin($name(scene))),
            }),*]
        }
    };
}
pub(crate) use cases;

/// The stage of one case.
pub(crate) struct Scene {
    http: Http,
    subject: Subject,
    /// A namespace that no other case uses.
    pub(crate) ns: String,
}

/// The body formats of a patch.
#[derive(Clone, Copy)]
pub(crate) enum Patch {
    Json,
    Merge,
    Strategic,
    Apply,
}

static NEXT: AtomicUsize = AtomicUsize::new(1);

/// A word that no other case of this run has.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Scene {
    /// Makes the namespace of a case.
    pub(crate) async fn new(http: Http, subject: Subject) -> Self {
        let ns = unique("case");
        let scene = Self { http, subject, ns };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.ns}});
        scene.post("/api/v1/namespaces", &body).await.is(201);
        scene
    }

    /// Names a difference that docs/embedded-api.md lists, and says which side this is.
    pub(crate) fn known_difference(&self, id: &str) -> Subject {
        let page = include_str!("../../../../docs/embedded-api.md");
        assert!(
            page.contains(&format!("`{id}`")),
            "docs/embedded-api.md does not list `{id}`"
        );
        self.subject
    }

    /// What the case is run on.
    pub(crate) fn subject(&self) -> Subject {
        self.subject
    }

    pub(crate) fn widgets(&self) -> String {
        format!(
            "/apis/battery.bindery.dev/v1/namespaces/{}/widgets",
            self.ns
        )
    }

    pub(crate) fn widget(&self, rest: &str) -> String {
        format!("{}/{rest}", self.widgets())
    }

    /// A collection of the core group in the namespace of the case, or something below it.
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.ns)
    }

    pub(crate) async fn call(&self, call: Call) -> Answer {
        self.http.send(call).await.expect("the API server answers")
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.call(Call::new(Method::GET, target)).await
    }

    pub(crate) async fn get_as(&self, target: &str, accept: &str) -> Answer {
        self.call(Call::new(Method::GET, target).header("accept", accept))
            .await
    }

    pub(crate) async fn post(&self, target: &str, body: &Value) -> Answer {
        self.call(Call::new(Method::POST, target).json(body)).await
    }

    pub(crate) async fn put(&self, target: &str, body: &Value) -> Answer {
        self.call(Call::new(Method::PUT, target).json(body)).await
    }

    pub(crate) async fn patch(&self, target: &str, kind: Patch, body: &Value) -> Answer {
        let content_type = match kind {
            Patch::Json => "application/json-patch+json",
            Patch::Merge => "application/merge-patch+json",
            Patch::Strategic => "application/strategic-merge-patch+json",
            Patch::Apply => "application/apply-patch+yaml",
        };
        let call = Call::new(Method::PATCH, target).body(content_type, body.to_string());
        self.call(call).await
    }

    pub(crate) async fn delete(&self, target: &str) -> Answer {
        self.call(Call::new(Method::DELETE, target)).await
    }

    pub(crate) async fn delete_with(&self, target: &str, options: &Value) -> Answer {
        self.call(Call::new(Method::DELETE, target).json(options))
            .await
    }

    /// Creates a Widget and gives what the server made of it.
    pub(crate) async fn make(&self, name: &str, spec: Value) -> Value {
        self.post(&self.widgets(), &widget(name, spec))
            .await
            .is(201)
    }

    /// Creates a `ConfigMap` and gives what the server made of it.
    pub(crate) async fn make_map(&self, name: &str, data: Value) -> Value {
        self.post(&self.core("configmaps"), &config_map(name, data))
            .await
            .is(201)
    }

    pub(crate) async fn watch(&self, target: &str) -> Events {
        match self
            .http
            .watch(target)
            .await
            .expect("the API server answers")
        {
            Ok(watch) => Events { watch },
            Err(answer) => unexpected(&answer, "a watch"),
        }
    }

    /// A watch that may be refused before its first event.
    pub(crate) async fn try_watch(&self, target: &str) -> Result<Events, Answer> {
        let opened = self
            .http
            .watch(target)
            .await
            .expect("the API server answers");
        opened.map(|watch| Events { watch })
    }

    /// Makes the server forget its past of Gadgets as soon as it can; the caller polls for the effect.
    pub(crate) async fn forget_gadgets(&self) {
        match self.subject {
            // Its compaction interval is set short, so time is enough.
            Subject::Real => {}
            // It keeps 32 MiB of each kind, packed: only what is like nothing else takes room.
            Subject::Embedded => {
                for index in 0..25 {
                    let mut state: u32 = 77 + index;
                    let mut letter = || {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        char::from(b'a' + u8::try_from((state >> 16) % 26).unwrap_or_default())
                    };
                    let pad: String = (0..1_400_000).map(|_| letter()).collect();
                    let body = json!({
                        "apiVersion": "battery.bindery.dev/v1", "kind": "Gadget",
                        "metadata": {"name": format!("pad-{}-{index}", self.ns)},
                        "pad": pad,
                    });
                    self.post("/apis/battery.bindery.dev/v1/gadgets", &body)
                        .await
                        .is(201);
                }
            }
        }
    }

    /// Runs the stock kubectl in the namespace of the case, with `input` on its standard input.
    pub(crate) async fn kubectl(&self, arguments: &[&str], input: &str) -> Run {
        let program = bindery_e2e::program::kubectl().expect("kubectl is installed");
        let cache = kubectl_cache();
        let mut command = tokio::process::Command::new(program);
        command
            .args(self.subject.kubectl_arguments())
            .arg(format!(
                "--cache-dir={}",
                cache.join(self.subject.as_str()).display()
            ))
            .arg(format!("--namespace={}", self.ns))
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env("KUBE_EDITOR", "sed -i 's/size: 1/size: 2/'")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        let talk = async {
            stdin.write_all(input.as_bytes()).await.ok();
            drop(stdin);
            child.wait_with_output().await
        };
        let output = timeout(PATIENCE, talk)
            .await
            .expect("kubectl ends")
            .expect("kubectl runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Looks until the answer satisfies `seen`.
    pub(crate) async fn until(&self, target: &str, seen: impl Fn(&Answer) -> bool) -> Value {
        self.until_call(Call::new(Method::GET, target), seen).await
    }

    /// Repeats a request until the answer satisfies `seen`.
    pub(crate) async fn until_call(&self, call: Call, seen: impl Fn(&Answer) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.call(call.clone()).await;
            if seen(&answer) {
                return answer.json;
            }
            assert!(
                Instant::now() < deadline,
                "{call:?} stays {} {}",
                answer.code,
                answer.text
            );
            sleep(POLL_INTERVAL).await; // pause between polls
        }
    }
}

/// What a command made.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// It succeeded; gives its output.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// It failed; gives what it complained of.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert_ne!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stderr
    }
}

/// The events of a watch.
pub(crate) struct Events {
    watch: WatchStream,
}

impl Events {
    /// Type and object of the next event.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let event = self.watch.next().await.expect("an event comes");
        let mut event = event.expect("the watch goes on");
        let kind = event["type"]
            .as_str()
            .expect("an event has a type")
            .to_owned();
        (kind, event["object"].take())
    }

    /// The next event but for bookmarks must be of this type, on an object of this name.
    pub(crate) async fn expect(&mut self, kind: &str, name: &str) -> Value {
        loop {
            let (seen, object) = self.next().await;
            if seen == "BOOKMARK" {
                continue;
            }
            let what = (seen.as_str(), &object["metadata"]["name"]);
            assert_eq!(what, (kind, &json!(name)), "{object}");
            return object;
        }
    }

    /// Reads until the server ends the watch; gives the rest.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(event) = self.watch.next().await.expect("the watch ends by itself") {
            rest.push(event);
        }
        rest
    }
}

#[track_caller]
fn unexpected(answer: &Answer, wanted: &str) -> ! {
    assert!(
        answer.code == 0,
        "wanted {wanted}, got {} {}",
        answer.code,
        answer.text
    );
    unreachable!("no HTTP status is 0")
}
