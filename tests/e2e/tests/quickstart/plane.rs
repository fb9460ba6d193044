//! A cluster of Kubernetes whose only node is this machine: kube-apiserver and kube-controller-manager, pods as
//! processes, and `bindery run` with the rights of `deploy/rbac.yaml`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bindery_apiserver::{Environment as _, System};
use bindery_e2e::kubernetes::Kubernetes;
use bindery_e2e::process::free_port;
use bindery_pods::{PodOptions, Pods, Programs, Tokens};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::machine::{Process, program, until};
use crate::production::ask;
use crate::stage::{RULES, admin, install_kinds, kubectl, log_in};

/// See the module; dropping it stops everything.
pub(crate) struct Plane {
    pub(crate) process: Process,
    kubernetes: Kubernetes,
    scratch: TempDir,
    runtime: Runtime,
    stop: CancellationToken,
    node: Option<JoinHandle<()>>,
}

impl Plane {
    /// Starts all of it with these arguments of `bindery run` besides, on a node that has these programs.
    pub(crate) fn start(flags: &[&str], programs: Programs) -> Result<Self> {
        let runtime = Runtime::new().context("a runtime needs only threads")?;
        let scratch = tempfile::tempdir()?;
        let mut kubernetes = runtime.block_on(Kubernetes::start())?;
        install_kinds(&admin(&kubernetes))?;
        // Its garbage collector knows the kinds that are there when it starts.
        kubernetes.start_controllers()?;
        let rules = fs::read_to_string(RULES).context(RULES)?;
        let kubeconfig = log_in(&kubernetes, scratch.path(), |apply| apply(&rules))?;
        let metrics = free_port()?;
        let mut line = vec![
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--metrics-address=127.0.0.1:{metrics}"),
        ];
        line.extend(flags.iter().map(|&flag| flag.to_owned()));
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let process = Process::start(&words, scratch.path(), 0)?;
        let clock = Arc::new(|| System.now());
        let folder = scratch.path().join("pods");
        let mut options = PodOptions::new(folder, programs, clock, Arc::new(System::secret));
        options.tokens = Tokens::Requested;
        let stop = CancellationToken::new();
        let client = kubernetes.http().client();
        let node = runtime.spawn(Pods::new(client, options).run(stop.clone()));
        Ok(Self {
            process,
            kubernetes,
            scratch,
            runtime,
            stop,
            node: Some(node),
        })
    }

    /// What runs in pods as a rule: `named` of this machine, and our sidecar.
    pub(crate) fn programs() -> Result<Programs> {
        Ok(Programs {
            named: bindery_bind::find_named(),
            bindery: Some(program()?.to_owned()),
        })
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&admin(&self.kubernetes), arguments)
    }

    pub(crate) fn apply(&self, yaml: &str) -> Result<()> {
        let file = self.scratch.path().join("apply.yaml");
        fs::write(&file, yaml)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])
            .map(drop)
    }

    /// A path of an object; nothing where it is not there.
    pub(crate) fn get(&self, place: (&str, &str), path: &str) -> String {
        let output = format!("jsonpath={{{path}}}");
        let (namespace, object) = place;
        let told = self.kubectl(&["get", object, "-n", namespace, "-o", &output]);
        told.unwrap_or_default().trim().to_owned()
    }

    /// Waits until a path of an object says this.
    pub(crate) fn says(&self, place: (&str, &str), path: &str, wanted: &str) -> Result<()> {
        let mut last = String::new();
        let found = until(place.1, || {
            last = self.get(place, path);
            Ok((last == wanted).then_some(()))
        });
        found.with_context(|| {
            format!(
                "{} {path}: {last:?} is not {wanted:?}\n{}",
                place.1,
                self.process.err()
            )
        })
    }

    /// Waits until a condition has this reason, and gives its message.
    pub(crate) fn reason(&self, place: (&str, &str), kind: &str, wanted: &str) -> Result<String> {
        let path = |field: &str| format!(".status.conditions[?(@.type=='{kind}')].{field}");
        self.says(place, &path("reason"), wanted)?;
        Ok(self.get(place, &path("message")))
    }

    /// The addresses of the pods of a namespace.
    pub(crate) fn addresses(&self, namespace: &str) -> Vec<String> {
        let told = self.get((namespace, "pods"), ".items[*].status.podIP");
        told.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until every pod of a namespace answers so; there are as many.
    pub(crate) fn served(
        &self,
        (namespace, pods): (&str, usize),
        name: &str,
        wanted: &str,
    ) -> Result<()> {
        until("the pods have addresses", || {
            Ok((self.addresses(namespace).len() == pods).then_some(()))
        })?;
        for address in self.addresses(namespace) {
            until(&format!("{name} on {address}"), || {
                Ok((ask(&address, name)? == wanted).then_some(()))
            })
            .with_context(|| self.process.err())?;
        }
        Ok(())
    }

    /// The folders of the pods of a namespace.
    pub(crate) fn pods(&self, namespace: &str) -> PathBuf {
        self.scratch.path().join("pods").join(namespace)
    }

    /// Waits until a namespace has no more of these than it had before anything was declared.
    pub(crate) fn is_empty(&self, namespace: &str, kinds: &str) -> Result<()> {
        let mut last = String::new();
        let names = ".items[*].metadata.name";
        let found = until("nothing is left", || {
            last = self.get((namespace, kinds), names);
            Ok(last.is_empty().then_some(()))
        });
        found.with_context(|| format!("{kinds} are left: {last}\n{}", self.process.err()))?;
        let folder = self.pods(namespace);
        until("the folders of its pods go", || {
            Ok(is_empty(&folder).then_some(()))
        })
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(node) = self.node.take() {
            self.runtime.block_on(node).ok();
        }
    }
}

/// Nothing that failed is in the log.
pub(crate) fn no_failures(plane: &Plane) -> Result<()> {
    let log = plane.process.err();
    ensure!(
        !log.contains("a request to the Kubernetes API failed")
            && !log.contains("cannot be watched"),
        "{log}"
    );
    Ok(())
}
