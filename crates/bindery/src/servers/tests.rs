use bindery_engine::Fence;

use super::*;

/// A folder with a file of name servers and two keys.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().expect("there is room"));
        scene.write_key("one.key", "one", 1);
        scene.write_key("two.key", "two", 2);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it is ours");
    }

    fn write_key(&self, file: &str, name: &str, secret: u8) {
        let key = Key::generate(name, [secret; 32]).expect("it is long enough");
        self.write(file, &key.to_key_file());
    }

    /// What is found with this file: `cluster name address key`.
    fn check(&self, text: &str, flags: &[&str]) -> Result<Vec<String>, String> {
        self.write("servers.yaml", text);
        let is_key = |flag: &&&str| flag.contains("key");
        let given = flags.iter().filter(|flag| !is_key(flag));
        let given = given.map(|flag| crate::address::name_server(flag).expect("it is right"));
        let keys = flags.iter().filter(is_key);
        let source = ServerSource {
            given: given.collect(),
            tsig_key_file: keys.map(|key| self.key_flag(key)).collect(),
            file: Some(self.path("servers.yaml")),
        };
        let found = source.read().found.map_err(|problem| {
            let folder = format!("{}/", self.0.path().display());
            problem.to_string().replace(&folder, "")
        })?;
        let lines = found.iter().flat_map(|(group, servers)| {
            let name = group.name().unwrap_or("-");
            servers.iter().map(move |one| {
                let FoundServer { info, key } = one;
                format!("{name} {} {} {}", info.id, info.address, key.name())
            })
        });
        Ok(lines.collect())
    }

    fn key_flag(&self, flag: &str) -> String {
        match flag.split_once('=') {
            Some((cluster, file)) => format!("{cluster}={}", self.path(file).display()),
            None => self.path(flag).display().to_string(),
        }
    }
}

const FILE: &str = "\
clusters:
- name: in
  tsigKeyFile: one.key
  servers:
  - {name: ns1, address: 'a:1'}
  - {name: ns2, address: 'b:1', tsigKeyFile: two.key}
";

#[test]
fn a_server_has_its_own_key_that_of_its_cluster_or_that_of_the_flag() {
    let scene = Scene::new();
    let wanted = ["in ns1 a:1 one", "in ns2 b:1 two"];
    assert_eq!(scene.check(FILE, &[]), Ok(wanted.map(str::to_owned).into()));
    let plain = "clusters:\n- servers:\n  - {name: ns1, address: 'a:1'}\n";
    let found = scene.check(plain, &["one.key"]);
    assert_eq!(found, Ok(vec!["- ns1 a:1 one".to_owned()]));
    let secret = "clusters:\n- servers:\n  - name: ns1\n    address: 'a:1'\n    \
                  tsigKey: {name: three, secretFile: three.secret}\n";
    scene.write("three.secret", "MDEyMzQ1Njc4OWFiY2RlZg==\n");
    let found = scene.check(secret, &[]);
    assert_eq!(found, Ok(vec!["- ns1 a:1 three".to_owned()]));
}

#[test]
fn servers_of_flags_stand_beside_those_of_the_file() {
    let scene = Scene::new();
    let found = scene.check(FILE, &["in/secondary=c:1", "d:1", "two.key"]);
    let wanted = [
        "- d:1 d:1 two",
        "in c:1 c:1 two",
        "in ns1 a:1 one",
        "in ns2 b:1 two",
    ];
    assert_eq!(found, Ok(wanted.map(str::to_owned).into()));
    // What the file gives up, the flags still have.
    let found = scene.check("clusters: []", &["d:1", "two.key"]);
    assert_eq!(found, Ok(vec!["- d:1 d:1 two".to_owned()]));
}

#[test]
fn what_is_wrong_is_told_with_line_field_and_never_a_secret() {
    let scene = Scene::new();
    scene.write(
        "broken.key",
        "key \"x\" { algorithm hmac-sha256; secret \"c2VjcmV0\"",
    );
    scene.write("short.secret", "c2VjcmV0 not base64 !\n");
    let with = |old: &str, new: &str| FILE.replace(old, new);
    for (text, flags, wanted) in [
        (
            with("b:1", "a:1"),
            &[][..],
            "servers.yaml:6: clusters[0].servers[1]: a:1 is named twice",
        ),
        (
            with("ns2", "ns1"),
            &[],
            "servers.yaml:6: clusters[0].servers[1]: ns1 is named twice in cluster in",
        ),
        (
            FILE.to_owned(),
            &["out/a:1", "one.key"],
            "servers.yaml:5: clusters[0].servers[0]: a:1 is",
        ),
        (
            with("two.key", "gone.key"),
            &[],
            "servers.yaml:6: clusters[0].servers[1].tsigKeyFile: gone.key: cannot be read: there is",
        ),
        (
            with("two.key", "broken.key"),
            &[],
            "servers.yaml:6: clusters[0].servers[1].tsigKeyFile: broken.key: ",
        ),
        (
            with(
                "tsigKeyFile: one.key",
                "tsigKey: {name: k, secretFile: short.secret}",
            ),
            &[],
            "servers.yaml:3: clusters[0].tsigKey: short.secret: ",
        ),
        (
            with("  tsigKeyFile: one.key\n", ""),
            &[],
            "servers.yaml:4: clusters[0].servers[0]: no key is for it",
        ),
    ] {
        let message = scene.check(&text, flags).expect_err(wanted);
        assert!(message.starts_with(wanted), "{message}");
        assert!(!message.contains("c2VjcmV0"), "{message}");
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let scene = Scene::new();
    let pipe = scene.path("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "mkfifo is part of every system"
    );
    let huge = fs::File::create(scene.path("huge.yaml")).expect("it is ours");
    huge.set_len(5 << 30).expect("it takes no room");
    for (name, wanted) in [
        ("pipe.yaml", "is no file but"),
        ("", "is no file but"),
        ("huge.yaml", "has 5368709120 bytes"),
        ("gone.yaml", "there is no such file"),
    ] {
        let source = ServerSource {
            file: Some(scene.path(name)),
            ..ServerSource::default()
        };
        let problem = source.read().found.err().expect("it cannot be read");
        assert!(problem.to_string().contains(wanted), "{problem}");
    }
}

#[test]
fn a_connection_lives_as_long_as_address_and_key_stay() {
    let scene = Scene::new();
    scene.write("servers.yaml", FILE);
    let source = ServerSource {
        file: Some(scene.path("servers.yaml")),
        ..ServerSource::default()
    };
    let mut connections = Connections::behind(Fence::none());
    let mut open = || {
        let found = source.read().found;
        let found = found
            .map_err(|problem| problem.to_string())
            .expect("it is right");
        let groups = connections.open(&found);
        let servers = groups.into_values().next().expect("there is one");
        servers
            .iter()
            .map(|one| Arc::clone(&one.server))
            .collect::<Vec<_>>()
    };
    let first = open();
    scene.write_key("two.key", "two", 3);
    let second = open();
    assert!(Arc::ptr_eq(&first[0], &second[0]));
    assert!(!Arc::ptr_eq(&first[1], &second[1]), "its key changed");
    scene.write("servers.yaml", &FILE.replace("a:1", "c:1"));
    let third = open();
    assert!(!Arc::ptr_eq(&second[0], &third[0]), "it moved");
    assert!(Arc::ptr_eq(&second[1], &third[1]));
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = include_str!("../../../../docs/name-servers.md");
    let block = page.split("<!-- servers.yaml -->\n```\n").nth(1);
    let text = block.and_then(|rest| rest.split("```").next());
    let content = format::parse("servers.yaml", text.expect("the page has it"));
    let content = content
        .map_err(|problem| problem.to_string())
        .expect("it is right");
    let ids: Vec<&str> = content
        .servers
        .iter()
        .map(|one| one.info.id.as_str())
        .collect();
    assert_eq!(ids, ["ns1", "in1", "in2"]);
    assert!(content.servers.iter().all(|one| one.key.is_some()));
    // So is that of the command's help.
    let help = include_str!("../cli.rs");
    let block = help.split("A file of name servers:\n").nth(1);
    let text = block.and_then(|rest| rest.split("\n\n").next());
    let content = format::parse("help", text.expect("the help has it"));
    assert!(content.is_ok_and(|content| content.servers.len() == 2));
}
