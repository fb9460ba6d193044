//! A `named` that runs on a rendered configuration, and the tools that ask it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bindery_bind::{find_named, placed};
use bindery_dns::Key;
use bindery_e2e::process::{ServerProcess, free_ports};
use bindery_sources::clusters::{KeySlot, NamedConf, render};
use tempfile::TempDir;

/// How long something may take that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A zone of one host, with a TTL of two days.
const ZONE: &str = "$TTL 60
@ IN SOA ns admin 1 3600 600 86400 60
@ 172800 IN NS ns
ns IN A 192.0.2.53
www IN A 192.0.2.80
";

pub(crate) struct Server {
    process: ServerProcess,
    folder: TempDir,
    port: u16,
    control_port: u16,
}

impl Server {
    /// Starts `named` on the rendered configuration: paths, addresses and ports are those of this machine.
    pub(crate) fn start(conf: &NamedConf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, first) = (folder.path(), free_ports(2).expect("two ports"));
        let config = root.join("etc/bind");
        for place in [config.join("keys"), root.join("var/cache/bind")] {
            fs::create_dir_all(place).expect("a folder of ours");
        }
        for (file, text) in render(conf).expect("a spec without problems") {
            let text = placed(&text, root)
                .replace(
                    "listen-on port 5353 { any; };",
                    &format!("listen-on port {first} {{ 127.0.0.1; }};"),
                )
                .replace(
                    "listen-on-v6 port 5353 { any; };",
                    "listen-on-v6 { none; };",
                )
                .replace("port 9530", &format!("port {}", first + 1));
            fs::write(config.join(file), text).expect("a file of ours");
        }
        for (at, key) in (1..).zip(&conf.keys) {
            let text = Key::generate(&key.name, [at; 32])
                .expect("a name of a key")
                .to_key_file();
            fs::write(config.join("keys").join(key.slot.file_name()), &*text)
                .expect("a file of ours");
        }
        fs::write(root.join("var/cache/bind/example.com.zone"), ZONE).expect("a file of ours");
        let mut command = Command::new(find_named().expect("named is installed"));
        command
            .arg("-f")
            .arg("-c")
            .arg(config.join("named.conf"))
            .current_dir(root);
        let process = ServerProcess::start(&mut command, &root.join("log")).expect("named starts");
        let mut server = Self {
            process,
            folder,
            port: first,
            control_port: first + 1,
        };
        server.until("it answers", |server| server.rndc(&["status"]).is_ok());
        server
    }

    /// Polls until something is true.
    pub(crate) fn until(&mut self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_true(self) {
            let ended = self.process.has_ended();
            assert!(
                !ended && Instant::now() < deadline,
                "not so: {what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50)); // pause between polls
        }
    }

    pub(crate) fn log(&self) -> String {
        self.process.log_tail()
    }

    /// A command over the control channel, as rndc.conf has it.
    pub(crate) fn rndc(&self, command: &[&str]) -> Result<String, String> {
        let config = self.folder.path().join("etc/bind/rndc.conf");
        said(Command::new("rndc").arg("-c").arg(config).args(command))
    }

    /// A command over the control channel with one key.
    pub(crate) fn rndc_with(&self, slot: KeySlot, command: &str) -> Result<String, String> {
        let port = self.control_port.to_string();
        let program = &mut Command::new("rndc");
        said(program.args([
            "-s",
            "127.0.0.1",
            "-p",
            &port,
            "-k",
            &self.key_file(slot),
            command,
        ]))
    }

    /// Adds the zone example.com with these statements.
    pub(crate) fn add_zone(&self, statements: &str) {
        let zone = format!("{{ type primary; file \"example.com.zone\"; {statements} }};");
        self.rndc(&["addzone", "example.com", &zone])
            .expect("the zone is added");
    }

    pub(crate) fn dig(&self, question: &[&str]) -> String {
        let port = self.port.to_string();
        let program = &mut Command::new("dig");
        let asked = program
            .args(["@127.0.0.1", "-p", &port, "+tries=1", "+time=5"])
            .args(question);
        // Columns are set with tabs or spaces, as the names are long.
        said(asked).unwrap_or_else(|said| said).replace('\t', " ")
    }

    pub(crate) fn transfer(&self, slot: Option<KeySlot>) -> String {
        let key = slot.map(|slot| self.key_file(slot));
        let key = key.as_deref().map_or(vec![], |file| vec!["-k", file]);
        self.dig(&[&["AXFR", "example.com"], &*key].concat())
    }

    /// Adds a TXT record, signed with a key or not.
    pub(crate) fn update(&self, slot: Option<KeySlot>, text: &str) -> Result<String, String> {
        let port = self.port;
        let commands = format!(
            "server 127.0.0.1 {port}\nzone example.com\nupdate add told.example.com 60 TXT {text}\nsend\n"
        );
        let script = self.folder.path().join("update");
        fs::write(&script, commands).expect("a file of ours");
        let mut command = Command::new("nsupdate");
        if let Some(slot) = slot {
            command.args(["-k", &self.key_file(slot)]);
        }
        said(command.arg(script))
    }

    fn key_file(&self, slot: KeySlot) -> String {
        let file = Path::new("etc/bind/keys").join(slot.file_name());
        self.folder.path().join(file).display().to_string()
    }
}

/// What a program wrote, in both ways; an error where it failed.
fn said(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program is installed");
    let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    if status.success() {
        Ok(text)
    } else {
        Err(text)
    }
}
