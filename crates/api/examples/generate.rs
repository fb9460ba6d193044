//! Prints the definitions for `cargo xtask crd`: as YAML for the cluster, as JSON for the reference.
#![expect(clippy::disallowed_methods, reason = "it reads its command line")]
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

fn main() {
    if std::env::args().nth(1).as_deref() == Some("json") {
        let json = serde_json::to_string(&bindery_api::crds());
        println!(
            "{}",
            json.expect("definitions are plain maps, lists and strings")
        );
    } else {
        print!("{}", bindery_api::crds_yaml());
    }
}
