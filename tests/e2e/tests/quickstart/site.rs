//! `bindery run` beside an API in this process and plain `named`s that Bindery does not manage.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use bindery_apiserver::{EmbeddedApi, Options, ServeOptions, System};
use bindery_dns::Key;
use bindery_e2e::process::{ServerProcess, free_port};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fleet::{record, zone};
use crate::machine::{PATIENCE, Process, fetch, program, run, text, until};
use crate::stage::{dig_at, resolves_at};

/// What every primary has at first.
const ZONE: &str = "$TTL 60\n@ SOA ns1 admin 1 1 1 60 60\n@ NS ns1\nns1 A 192.0.2.53\n";

/// See the module; dropping it stops everything.
pub(crate) struct Site {
    pub(crate) process: Process,
    pub(crate) servers: Vec<Plain>,
    pub(crate) scratch: TempDir,
    pub(crate) metrics: u16,
    api: u16,
    line: Vec<String>,
    runs: usize,
    _stop: DropGuard,
    _runtime: Runtime,
}

/// A `named` with a configuration of its own.
pub(crate) struct Plain {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    /// Where it fetches from; none where it takes updates.
    from: Vec<SocketAddr>,
    /// Whom it tells of changes.
    notify: Vec<SocketAddr>,
    process: Option<ServerProcess>,
}

impl Plain {
    fn new(scratch: &TempDir, name: &str, from: Vec<SocketAddr>) -> Result<Self> {
        let folder = scratch.path().join(name);
        fs::create_dir(&folder)?;
        if from.is_empty() {
            fs::write(folder.join("example.com.zone"), ZONE)?;
        }
        Ok(Self {
            name: name.to_owned(),
            address: (Ipv4Addr::LOCALHOST, free_port()?).into(),
            folder,
            from,
            notify: Vec::new(),
            process: None,
        })
    }

    /// Writes its configuration: it knows these keys, and fetches with the first.
    pub(crate) fn configure(&self, keys: &[&Key]) -> Result<()> {
        let (folder, port) = (self.folder.display(), self.address.port());
        let texts: String = keys
            .iter()
            .map(|key| key.to_key_file().to_string())
            .collect();
        let names = keys.iter().map(|key| format!("key \"{}\"; ", key.name()));
        let names = names.collect::<Vec<_>>().concat();
        let first = keys.first().context("it has a key")?.name();
        let role = if self.from.is_empty() {
            let told = self.notify.iter();
            let told = told.map(|at| format!("{} port {}; ", at.ip(), at.port()));
            let told: String = told.collect();
            format!("type primary; allow-update {{ {names}}}; also-notify {{ {told}}};")
        } else {
            let from = self.from.iter();
            let from = from.map(|at| format!("{} port {} key \"{first}\"; ", at.ip(), at.port()));
            let from: String = from.collect();
            format!(
                "type secondary; primaries {{ {from}}}; min-refresh-time 1; max-refresh-time 1;"
            )
        };
        let conf = format!(
            "{texts}options {{ directory \"{folder}\"; pid-file \"named.pid\"; session-keyfile none;\n\
             listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
             recursion no; notify explicit; notify-delay 0; dnssec-validation no; }};\ncontrols {{ }};\n\
             zone \"example.com\" {{ {role} file \"example.com.zone\"; masterfile-format text;\n\
             allow-transfer {{ {names}}}; }};\n"
        );
        Ok(fs::write(self.folder.join("named.conf"), conf)?)
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(&mut self) -> Result<()> {
        let mut command = Command::new("named");
        command
            .arg("-f")
            .arg("-c")
            .arg(self.folder.join("named.conf"));
        self.process = None;
        let log = self.folder.join("log");
        let process = self
            .process
            .insert(ServerProcess::start(&mut command, &log)?);
        let address = self.address;
        let answers = until("named answers", || {
            ensure!(!process.has_ended(), "named ended");
            Ok(dig_at(address, "example.com", "SOA").ok())
        });
        answers.map(drop).with_context(|| process.log_tail())
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let pid = self.process.as_ref().context("it does not run")?.pid();
        text(&run("kill", &["-s", name, &pid.to_string()])?).map(drop)
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Reads its configuration again.
    pub(crate) fn reload(&self, keys: &[&Key]) -> Result<()> {
        self.configure(keys)?;
        self.signal("HUP")
    }

    pub(crate) fn resolves(&self, name: &str, wanted: &str) -> Result<()> {
        resolves_at(self.address, name, "A", wanted)
    }

    pub(crate) fn serial(&self) -> Result<u32> {
        let soa = dig_at(self.address, "example.com", "SOA")?;
        let serial = soa.split(' ').nth(2).and_then(|serial| serial.parse().ok());
        serial.with_context(|| format!("{soa:?} is no SOA"))
    }

    /// Changes DNS behind Bindery's back.
    pub(crate) fn nsupdate(&self, key: &Key, lines: &str) -> Result<()> {
        let (script, file) = (
            self.folder.join("nsupdate.txt"),
            self.folder.join("nsupdate.key"),
        );
        fs::write(&file, key.to_key_file().as_bytes())?;
        let (host, port) = (self.address.ip(), self.address.port());
        fs::write(
            &script,
            format!("server {host} {port}\nzone example.com\n{lines}\nsend\n"),
        )?;
        let (script, file) = (script.display().to_string(), file.display().to_string());
        text(&run("nsupdate", &["-k", &file, &script])?).map(drop)
    }
}

impl Site {
    /// Starts so many primaries and secondaries with this key, and `run` with a file that names them.
    pub(crate) fn new(key: &Key, primaries: usize, secondaries: usize) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let mut servers = Vec::new();
        for index in 1..=primaries {
            servers.push(Plain::new(&scratch, &format!("p{index}"), Vec::new())?);
        }
        // From the last one only: a transfer that `named` began from a primary which hangs keeps it from asking
        // another for minutes, and those that hang here are the first ones.
        let from: Vec<SocketAddr> = servers.last().map(|one| one.address).into_iter().collect();
        for index in 1..=secondaries {
            servers.push(Plain::new(&scratch, &format!("s{index}"), from.clone())?);
        }
        let told: Vec<SocketAddr> = servers[primaries..].iter().map(|one| one.address).collect();
        for server in &mut servers[..primaries] {
            server.notify.clone_from(&told);
        }
        for server in &mut servers {
            server.configure(&[key])?;
            server.start()?;
        }
        let runtime = Runtime::new().context("a runtime needs only threads")?;
        let stop = CancellationToken::new();
        let (api, metrics) = (free_port()?, free_port()?);
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, api)))?;
        let served = EmbeddedApi::open(Options::in_memory())?;
        runtime.spawn(served.serve(listener, ServeOptions::default(), stop.clone()));
        let kubeconfig = scratch.path().join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_of(api))?;
        let kubeconfig = kubeconfig.display().to_string();
        install_kinds(&kubeconfig)?;
        write_key(&scratch, key)?;
        let line = vec![
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--metrics-address=127.0.0.1:{metrics}"),
            format!(
                "--servers={}",
                scratch.path().join("servers.yaml").display()
            ),
        ];
        let all: Vec<&Plain> = servers.iter().collect();
        fs::write(scratch.path().join("servers.yaml"), listed(&all, key))?;
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let process = Process::start(&words, scratch.path(), 0)?;
        let site = Self {
            process,
            servers,
            scratch,
            metrics,
            api,
            line,
            runs: 0,
            _stop: stop.drop_guard(),
            _runtime: runtime,
        };
        site.apply(&zone("example", "example.com", ""))?;
        site.publish("www", "192.0.2.1")?;
        site.ready("arecord/www")?;
        Ok(site)
    }

    /// Starts another `named` that Bindery is not told of.
    pub(crate) fn add_server(&mut self, name: &str, from: &[usize], key: &Key) -> Result<()> {
        let from = from.iter().map(|place| self.servers[*place].address);
        let mut server = Plain::new(&self.scratch, name, from.collect())?;
        server.configure(&[key])?;
        server.start()?;
        self.servers.push(server);
        Ok(())
    }

    /// Puts this text in the place of the file of name servers.
    pub(crate) fn write_servers(&self, text: &str) -> Result<()> {
        let (file, scratch) = (self.path("servers.yaml"), self.path("servers.new"));
        fs::write(&scratch, text)?;
        Ok(fs::rename(scratch, file)?)
    }

    /// The same of a list of these servers, all with this key.
    pub(crate) fn list(&self, places: &[usize], key: &Key) -> Result<()> {
        let servers: Vec<&Plain> = places.iter().map(|place| &self.servers[*place]).collect();
        self.write_servers(&listed(&servers, key))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn write_key(&self, key: &Key) -> Result<()> {
        write_key(&self.scratch, key)
    }

    /// Ends `run` and starts it again.
    pub(crate) fn restart(&mut self, signal: &str) -> Result<()> {
        self.process.signal(signal)?;
        self.process.wait()?;
        self.runs += 1;
        let words: Vec<&str> = self.line.iter().map(String::as_str).collect();
        self.process = Process::start(&words, self.scratch.path(), self.runs)?;
        Ok(())
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(bindery_e2e::program::kubectl()?)
            .arg(format!("--server=http://127.0.0.1:{}", self.api))
            .args(arguments)
            .env("HOME", self.scratch.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")?;
        text(&output)
            .with_context(|| format!("kubectl {}\n{}", arguments.join(" "), self.process.err()))
    }

    pub(crate) fn apply(&self, yaml: &str) -> Result<()> {
        let file = self.path("apply.yaml");
        fs::write(&file, yaml)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])
            .map(drop)
    }

    /// Declares an address of a name.
    pub(crate) fn publish(&self, name: &str, address: &str) -> Result<()> {
        self.apply(&record(name, "example", address))
    }

    pub(crate) fn ready(&self, object: &str) -> Result<()> {
        let patience = format!("--timeout={}s", PATIENCE.as_secs());
        self.kubectl(&["wait", "--for=condition=Ready", object, &patience])
            .map(drop)
    }

    /// Declares a name, waits until it is Ready, and sees it on these servers.
    pub(crate) fn serves(&self, name: &str, address: &str, places: &[usize]) -> Result<()> {
        self.publish(name, address)?;
        self.ready(&format!("arecord/{name}"))?;
        for place in places {
            let server = &self.servers[*place];
            server.resolves(&format!("{name}.example.com"), address)?;
        }
        Ok(())
    }

    /// Waits until a field of an object, as a JSON path, is as wanted.
    pub(crate) fn says(
        &self,
        object: &str,
        path: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let path = format!("jsonpath={{{path}}}");
        let mut last = String::new();
        until("a field", || {
            last = self.kubectl(&["get", object, "-o", &path])?;
            Ok(wanted(&last).then(|| last.clone()))
        })
        .with_context(|| format!("{object} {path} says {last:?}\n{}", self.process.err()))
    }

    /// Waits until a line of the metrics is as wanted.
    pub(crate) fn counts(&self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let mut page = String::new();
        until("a metric", || {
            page = fetch(self.metrics, "/metrics").map_or_else(|_| String::new(), |(_, page)| page);
            Ok(page.lines().any(&wanted).then_some(()))
        })
        .with_context(|| page.clone())
    }

    /// What `bindery status` prints.
    pub(crate) fn status(&self) -> Result<String> {
        let kubeconfig = self.path("kubeconfig").display().to_string();
        let output = Command::new(program()?)
            .args(["status", "--kubeconfig", &kubeconfig])
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A new key of this name.
pub(crate) fn new_key(name: &str) -> Result<Key> {
    Ok(Key::generate(name, System::secret())?)
}

/// The servers as a file has them.
pub(crate) fn listed(servers: &[&Plain], key: &Key) -> String {
    let server = |one: &&Plain| {
        let role = if one.from.is_empty() {
            "primary"
        } else {
            "secondary"
        };
        format!(
            "  - {{name: {}, address: '{}', role: {role}}}\n",
            one.name, one.address
        )
    };
    let servers: String = servers.iter().map(server).collect();
    let servers = if servers.is_empty() {
        "  []\n".to_owned()
    } else {
        servers
    };
    let name = key.name();
    format!(
        "clusters:\n- tsigKeyFile: {}.key\n  servers:\n{servers}",
        name.trim_end_matches('.')
    )
}

fn write_key(scratch: &TempDir, key: &Key) -> Result<()> {
    let name = key.name();
    let path = scratch
        .path()
        .join(format!("{}.key", name.trim_end_matches('.')));
    Ok(fs::write(path, key.to_key_file().as_bytes())?)
}

fn kubeconfig_of(api: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: 'http://127.0.0.1:{api}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
    )
}

/// As the README says: `bindery crds | kubectl apply -f -`.
fn install_kinds(kubeconfig: &str) -> Result<()> {
    let (bindery, kubectl) = (program()?, bindery_e2e::program::kubectl()?);
    let line = format!(
        "{} crds | {} --kubeconfig={kubeconfig} apply -f - && {} --kubeconfig={kubeconfig} wait \
         --for=condition=Established crd --all --timeout=60s",
        bindery.display(),
        kubectl.display(),
        kubectl.display()
    );
    text(&run("sh", &["-c", &line])?).map(drop)
}
