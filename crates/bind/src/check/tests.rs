//! The real `named-checkconf` on small configurations.

use super::*;

fn check_in(scratch: &Path) -> ConfigCheck {
    ConfigCheck {
        program: find_checkconf().unwrap(),
        scratch: scratch.to_owned(),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    owned.collect()
}

/// What comes of named.conf with one option; nothing is left behind.
async fn checked(config: &str, keys: &[(&str, &str)]) -> Result<(), CheckFault> {
    let scratch = tempfile::tempdir().unwrap();
    let files = map(&[("named.conf", config)]);
    let outcome = check_in(scratch.path()).check(&files, &map(keys)).await;
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    outcome
}

#[tokio::test]
async fn a_configuration_with_its_keys_is_taken() {
    let config = r#"include "/etc/bind/keys/rndc.key";
options { directory "/var/cache/bind"; key-directory "/var/cache/bind"; };
controls { inet 127.0.0.1 port 9530 allow { localhost; } keys { "bindery"; }; };
"#;
    checked(config, &[("rndc.key", "bindery")]).await.unwrap();
    let fault = checked(config, &[("rndc.key", "other")]).await.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "/etc/bind/named.conf:3: unknown key 'bindery'"
    );
    assert!(fault.is_authors());
    let fault = checked(config, &[("rndc.key", "a..b")]).await.unwrap_err();
    assert!(matches!(fault, CheckFault::Key { .. }), "{fault}");
}

#[tokio::test]
async fn what_is_wrong_is_told_in_its_own_words() {
    let config = "options {\n\tallow-query { \"nobody\"; };\n};\n";
    let fault = checked(config, &[]).await.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "/etc/bind/named.conf:2: undefined ACL 'nobody'"
    );
    let fault = checked("options {", &[]).await.unwrap_err();
    let said = "/etc/bind/named.conf:1: '}' expected near end of file";
    assert_eq!(fault.to_string(), said);
}

#[tokio::test]
async fn long_complaints_are_cut() {
    let names: Vec<String> = (0..100).map(|at| format!("\"x{at}\";")).collect();
    let config = format!("options {{ allow-query {{ {} }}; }};", names.join("\n"));
    let fault = checked(&config, &[]).await.unwrap_err();
    let lines = fault.to_string().lines().count();
    assert!(lines <= SAID_LINES_MAX + 1, "{fault}");
    let said = "x".repeat(SAID_LEN_MAX * 2);
    let status = ExitStatus::default();
    let cut = words(&said, Path::new("/nowhere"), status);
    assert_eq!(cut.chars().count(), SAID_LEN_MAX + 1);
    assert!(words("", Path::new("/"), status).starts_with("named-checkconf said nothing"));
}

#[tokio::test]
async fn no_file_of_this_machine_is_read_for_an_author() {
    for hostile in [
        "include \"/etc/hostname\";",
        "INCLUDE \"/run/secrets/token\";",
        "include\n\t\"/etc/bind/x/..\";",
        "include \"/etc/bind\\/x\";",
        "include/**/\"/etc/bind/x\";",
        "include \"relative\";",
        "options { include \"/etc/bindings\"; };",
        "zone \"a\" {include \"/etc/hostname\";};",
    ] {
        let fault = checked(hostile, &[]).await.unwrap_err();
        assert!(
            matches!(fault, CheckFault::Outside { .. }),
            "{hostile}: {fault}"
        );
        assert!(fault.is_authors());
    }
    for fine in [
        "// includes all",
        "include \"/etc/bind/named.conf.options\";",
        "a-include \"x\"",
    ] {
        assert_eq!(include_outside(fine), None, "{fine}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_no_fault_of_the_author() {
    let scratch = tempfile::tempdir().unwrap();
    let mut check = check_in(scratch.path());
    check.program = scratch.path().join("named-checkconf");
    let fault = check
        .check(&map(&[("named.conf", "")]), &map(&[]))
        .await
        .unwrap_err();
    assert!(matches!(fault, CheckFault::Run { .. }), "{fault}");
    assert!(!fault.is_authors());
    check.scratch = scratch.path().join("missing");
    let fault = check
        .check(&map(&[("named.conf", "")]), &map(&[]))
        .await
        .unwrap_err();
    assert!(matches!(fault, CheckFault::Prepare { .. }), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_hangs_is_ended() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let mut check = check_in(scratch.path());
    check.program = scratch.path().join("hangs");
    fs::write(&check.program, "#!/bin/sh\nexec tail -f /dev/null\n").unwrap();
    fs::set_permissions(&check.program, fs::Permissions::from_mode(0o700)).unwrap();
    let files = map(&[("named.conf", "")]);
    let fault = check.check(&files, &map(&[])).await.unwrap_err();
    assert!(matches!(fault, CheckFault::Overdue { .. }), "{fault}");
}

#[test]
fn a_configuration_can_be_placed_in_a_folder() {
    let text = "include \"/etc/bind/x\"; directory \"/var/cache/bind\"; // /etc/bind";
    let expected =
        "include \"/a\\\"b/etc/bind/x\"; directory \"/a\\\"b/var/cache/bind\"; // /etc/bind";
    assert_eq!(placed(text, Path::new("/a\"b")), expected);
}
