use super::*;

fn problem(text: &str) -> String {
    match Key::from_key_file(text) {
        Ok(_) => panic!("accepted {text:?}"),
        Err(problem) => problem.to_string(),
    }
}

#[test]
fn a_printed_key_file_reads_back_as_the_same_key() {
    for algorithm in [
        Algorithm::HmacSha256,
        Algorithm::HmacSha384,
        Algorithm::HmacSha512,
    ] {
        let key = Key::new("Bindery.Local", algorithm, (0..=63).collect()).unwrap();
        let again = Key::from_key_file(&key.to_key_file()).unwrap();
        assert!(key == again);
        assert_eq!(again.name(), "bindery.local");
        assert_eq!(again.algorithm(), algorithm);
    }
}

#[test]
fn what_tsig_keygen_and_people_write_is_read() {
    for text in [
        "key \"k\" {\n\talgorithm hmac-sha256;\n\tsecret \"AAECAw==\";\n};\n",
        "# mine\nkey k { secret AAECAw==; algorithm HMAC-SHA256; }; // end\n",
        "/* a\n b */ key k. { algorithm \"hmac-sha256\"; secret \"AAEC\nAw==\"; };",
    ] {
        let key = Key::from_key_file(text).unwrap();
        assert!(key == Key::new("k", Algorithm::HmacSha256, vec![0, 1, 2, 3]).unwrap());
    }
}

#[test]
fn weak_algorithms_are_refused_with_what_to_do() {
    for weak in [
        "hmac-md5",
        "HMAC-MD5.SIG-ALG.REG.INT",
        "hmac-sha1",
        "hmac-sha224",
    ] {
        let said = problem(&format!(
            "key k {{ algorithm {weak}; secret \"AAECAw==\"; }};"
        ));
        assert!(
            said.contains("too weak") && said.contains("tsig-keygen"),
            "{said}"
        );
    }
}

#[test]
fn a_bad_key_file_names_the_line_and_never_the_secret() {
    for (text, wanted) in [
        ("", "no key in the file"),
        (
            "key k {\n algorithm hmac-sha256;\n secret HUSHHUSH\n};",
            "line 4: expected `;`",
        ),
        ("key k {\n secret HUSHHUSH;\n};", "no algorithm"),
        ("key k {\n algorithm hmac-sha256;\n};", "no secret"),
        ("HUSHHUSH", "line 1: expected `key`"),
        (
            "key k { algorithm hmac-sha256; secret \"HUSH HUSH!\"; };",
            "not base64",
        ),
        ("key k { algorithm hmac-sha256; secret \"\"; };", "is empty"),
        (
            "key k { algorithm hmac-sha256; secret \"HUSH",
            "does not end",
        ),
        (
            "key k { algorithm hmac-sha256; secret HUSH;",
            "does not end",
        ),
        ("/* HUSH", "does not end"),
        (
            "key k { algorithm rot13; secret HUSH; };",
            "unknown algorithm",
        ),
        (
            "key \"a..b\" { algorithm hmac-sha256; secret HUSH; };",
            "not a domain name",
        ),
        (
            "key \".\" { algorithm hmac-sha256; secret HUSH; };",
            "not a domain name",
        ),
    ] {
        let said = problem(text);
        assert!(said.contains(wanted), "{text:?} gave {said:?}");
        assert!(!said.contains("HUSH"), "{said}");
    }
    let two = "key a { algorithm hmac-sha256; secret AAAA; };".repeat(2);
    assert!(problem(&two).contains("2 keys"));
}

#[test]
fn keys_differ_by_name_algorithm_and_secret() {
    let key = Key::generate("k", [7; 32]).unwrap();
    assert!(key == Key::new("K.", Algorithm::HmacSha256, vec![7; 32]).unwrap());
    assert!(key != Key::generate("l", [7; 32]).unwrap());
    assert!(key != Key::generate("k", [8; 32]).unwrap());
    assert!(key != Key::new("k", Algorithm::HmacSha512, vec![7; 32]).unwrap());
}
