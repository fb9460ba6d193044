//! What a container would see through its own mounts and network, written into what it is told.
//!
//! There is neither a mount nor a network namespace here. These are all the rules; the decision on pods as local
//! processes tells them in words.

use std::net::Ipv4Addr;
use std::ops::Range;

/// Folders that the image of `named` has; they are the pod's own here.
pub(crate) const IMAGE_FOLDERS: [&str; 6] = [
    "/var/cache/bind",
    "/var/lib/bind",
    "/var/log/named",
    "/run/named",
    "/var/run/named",
    "/tmp",
];

/// Names of this pod as a container knows them.
const OWN_HOSTS: [&str; 5] = ["0.0.0.0", "127.0.0.1", "localhost", "[::]", "[::1]"];

/// The same in a configuration of BIND.
const OWN_WORDS: [&str; 6] = ["*", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1"];

/// Which folder stands behind which path of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    /// Longest path first, so that what is mounted below another mount is found.
    pairs: Vec<(String, String)>,
}

impl Mounts {
    /// Of several folders at one path the first counts.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut kept: Vec<(String, String)> = Vec::new();
        for (path, folder) in pairs {
            let path = path.trim_end_matches('/').to_owned();
            if path.starts_with('/') && kept.iter().all(|(known, _)| *known != path) {
                kept.push((path, folder));
            }
        }
        kept.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self { pairs: kept }
    }

    /// The text with each mounted path, whole or as a beginning, replaced by its folder.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(letter) = rest.chars().next() {
            let begins = letter == '/' && !before.is_some_and(|it| is_name(it) || it == '/');
            let hit = self.pairs.iter().find(|(path, _)| {
                let after = rest.strip_prefix(path.as_str());
                after.is_some_and(|after| !after.chars().next().is_some_and(is_name))
            });
            if begins && let Some((path, folder)) = hit {
                made.push_str(folder);
                before = path.chars().last();
                rest = &rest[path.len()..];
            } else {
                made.push(letter);
                before = Some(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        made
    }
}

/// The text of an argument or variable with this pod's hosts replaced by its address.
pub(crate) fn hosts(text: &str, address: Ipv4Addr) -> String {
    let mut made = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let before = text[..at].chars().last();
        let in_url = text[..at].ends_with("//") || text[..at].ends_with('@');
        let begins = in_url || !before.is_some_and(|it| is_name(it) || matches!(it, '/' | ':'));
        let hit = OWN_HOSTS.iter().find(|host| {
            let after = rest.strip_prefix(**host).map(|after| after.chars().next());
            // `127.0.0.1/8` is a range of addresses, not a host.
            after
                .is_some_and(|after| !after.is_some_and(|it| is_name(it) || (it == '/' && !in_url)))
        });
        if begins && let Some(host) = hit {
            made.push_str(&address.to_string());
            at += host.len();
        } else {
            let letter = rest.chars().next().unwrap_or_default();
            made.push(letter);
            at += letter.len_utf8();
        }
    }
    made
}

/// A file of BIND with the addresses that it listens on replaced by the pod's.
pub(crate) fn config(text: &str, address: Ipv4Addr) -> String {
    let tokens = tokens(text);
    let word = |index: usize| tokens.get(index).map_or("", |range| &text[range.clone()]);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut depth = 0_usize;
    let mut is_server = false;
    for index in 0..tokens.len() {
        match word(index) {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "options" if depth == 0 && word(index + 1) == "{" => {
                let end = tokens[index + 1].end;
                let missing = missing_options(&tokens, text, index + 1, address);
                is_server |= missing.is_some();
                edits.extend(missing.map(|missing| (end..end, missing)));
            }
            "listen-on" => edits.extend(listen(&tokens, text, index, &address.to_string())),
            "listen-on-v6" => edits.extend(listen(&tokens, text, index, "none")),
            "inet" | "default-server" | "server" if OWN_WORDS.contains(&word(index + 1)) => {
                edits.push((tokens[index + 1].clone(), address.to_string()));
            }
            _ => {}
        }
    }
    if is_server && !(0..tokens.len()).any(|index| word(index) == "controls") {
        edits.push((text.len()..text.len(), "\ncontrols { };\n".to_owned()));
    }
    let mut made = text.to_owned();
    for (range, replacement) in edits.into_iter().rev() {
        made.replace_range(range, &replacement);
    }
    made
}

/// What the list after `listen-on` becomes, unless it is `none`.
fn listen(
    tokens: &[Range<usize>],
    text: &str,
    index: usize,
    listed: &str,
) -> Option<(Range<usize>, String)> {
    let word = |range: &Range<usize>| &text[range.clone()];
    let rest = &tokens[index..];
    let end = rest.iter().position(|range| word(range) == ";")?;
    let open = rest[..end].iter().position(|range| word(range) == "{")?;
    let close = open + rest[open..].iter().position(|range| word(range) == "}")?;
    let list = rest[open + 1..close].iter().map(word);
    let is_none = list.eq(["none", ";"]);
    let inside = rest[open].end..rest[close].start;
    (!is_none).then(|| (inside, format!(" {listed}; ")))
}

/// What a block of options of `named` does not say and a container would have for itself.
fn missing_options(
    tokens: &[Range<usize>],
    text: &str,
    open: usize,
    address: Ipv4Addr,
) -> Option<String> {
    let mut depth = 0_usize;
    let mut said: Vec<&str> = Vec::new();
    for range in &tokens[open..] {
        match &text[range.clone()] {
            "{" => depth += 1,
            "}" if depth <= 1 => break,
            "}" => depth -= 1,
            word if depth == 1 => said.push(word),
            _ => {}
        }
    }
    // The options of `rndc`, which knows none of these.
    if said.iter().any(|word| word.starts_with("default-")) {
        return None;
    }
    let wanted = [
        ("listen-on", format!("{{ {address}; }}")),
        ("listen-on-v6", "{ none; }".to_owned()),
        ("notify-source", address.to_string()),
        ("transfer-source", address.to_string()),
        ("pid-file", "none".to_owned()),
        ("session-keyfile", "none".to_owned()),
    ];
    let missing = wanted.iter().filter(|(name, _)| !said.contains(name));
    let words = missing.flat_map(|(name, value)| [" ", name, " ", value, ";"]);
    Some(words.collect())
}

/// Words, strings, braces and semicolons of a file of BIND, without comments.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let skipped = match bytes[at] {
            b'#' => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => {
                rest[2..].find("*/").map_or(rest.len(), |end| end + 4)
            }
            byte if byte.is_ascii_whitespace() => 1,
            _ => 0,
        };
        if skipped > 0 {
            at += skipped;
            continue;
        }
        let len = match bytes[at] {
            b'{' | b'}' | b';' => 1,
            b'"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            _ => {
                let ends = |letter: char| letter.is_whitespace() || "{};\"#".contains(letter);
                rest.find(ends).unwrap_or(rest.len()).max(1)
            }
        };
        found.push(at..at + len);
        at += len;
    }
    found
}

/// What a name in a path, or a host, is made of.
fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 5);

    fn check_paths(text: &str, wanted: &str) {
        let pairs = [
            ("/etc/bind/", "/D/conf"),
            ("/etc/bind/keys", "/D/keys"),
            ("/tmp", "/D/tmp"),
        ];
        let mounts = Mounts::new(pairs.map(|(path, folder)| (path.to_owned(), folder.to_owned())));
        assert_eq!(mounts.apply(text), wanted);
    }

    #[test]
    fn a_mounted_path_becomes_its_folder() {
        check_paths("/etc/bind/named.conf", "/D/conf/named.conf");
        check_paths("/etc/bind", "/D/conf");
        check_paths(
            "--config=/etc/bind/x --tmp=/tmp",
            "--config=/D/conf/x --tmp=/D/tmp",
        );
        check_paths(
            "include \"/etc/bind/keys/a.key\";",
            "include \"/D/keys/a.key\";",
        );
        check_paths("a:/tmp:/etc/bind", "a:/D/tmp:/D/conf");
    }

    #[test]
    fn a_path_that_only_looks_like_a_mounted_one_stays() {
        for text in [
            "/etc/bindings",
            "/etc/bind.d/x",
            "/srv/etc/bind",
            "x/tmp",
            "http://tmp/a",
            "",
        ] {
            check_paths(text, text);
        }
    }

    #[test]
    fn what_was_replaced_is_not_looked_at_again() {
        let mounts = Mounts::new([("/a".to_owned(), "/a/a".to_owned())]);
        assert_eq!(mounts.apply("/a/a /a"), "/a/a/a /a/a");
    }

    #[test]
    fn hosts_of_the_pod_become_its_address() {
        let check = |text: &str, wanted: &str| assert_eq!(hosts(text, ADDRESS), wanted);
        check("0.0.0.0:8080", "127.64.0.5:8080");
        check("--listen=[::]:8080", "--listen=127.64.0.5:8080");
        check("127.0.0.1", "127.64.0.5");
        check("http://localhost:953/x", "http://127.64.0.5:953/x");
        check("127.0.0.1:53,localhost:54", "127.64.0.5:53,127.64.0.5:54");
    }

    #[test]
    fn what_is_no_host_of_the_pod_stays() {
        for text in [
            "127.0.0.10:5",
            "10.0.0.0",
            "127.0.0.1/8",
            "/etc/localhost",
            "mylocalhost",
            "é",
        ] {
            assert_eq!(hosts(text, ADDRESS), text);
        }
    }

    #[test]
    fn a_server_listens_on_its_pod_only() {
        let text = "options { listen-on port 5353 { any; }; listen-on-v6 port 5353 { any; };\n\
                    notify-source 1.2.3.4; transfer-source *; pid-file \"/x\"; session-keyfile none; };";
        let wanted = "options { listen-on port 5353 { 127.64.0.5; }; listen-on-v6 port 5353 { none; };\n\
                      notify-source 1.2.3.4; transfer-source *; pid-file \"/x\"; session-keyfile none; };\ncontrols { };\n";
        assert_eq!(config(text, ADDRESS), wanted);
    }

    #[test]
    fn what_the_options_do_not_say_is_put_in() {
        let wanted = "options { listen-on { 127.64.0.5; }; listen-on-v6 { none; }; \
                      notify-source 127.64.0.5; transfer-source 127.64.0.5; pid-file none; \
                      session-keyfile none; directory \"/d\"; };\ncontrols { };\n";
        assert_eq!(config("options { directory \"/d\"; };", ADDRESS), wanted);
    }

    #[test]
    fn a_server_that_listens_nowhere_goes_on_doing_so() {
        let text = "view x { listen-on { none; }; };";
        assert_eq!(config(text, ADDRESS), text);
    }

    #[test]
    fn the_control_channel_is_the_pods() {
        for host in ["127.0.0.1", "*", "localhost"] {
            let text = format!("controls {{ inet {host} port 953 allow {{ 127.0.0.1; }}; }};");
            let wanted = "controls { inet 127.64.0.5 port 953 allow { 127.0.0.1; }; };";
            assert_eq!(config(&text, ADDRESS), wanted);
        }
        let text = "options { default-server localhost; };";
        assert_eq!(
            config(text, ADDRESS),
            "options { default-server 127.64.0.5; };"
        );
    }

    #[test]
    fn comments_and_strings_are_left_alone() {
        for text in [
            "// listen-on { any; };\n",
            "# options {\n",
            "/* inet * */ x",
            "\"inet *\"",
            "\"",
            "/*",
        ] {
            assert_eq!(config(text, ADDRESS), text);
        }
    }
}
