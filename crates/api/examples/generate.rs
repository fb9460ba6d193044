//! Writes the definitions to standard output.
fn main() {
    print!("{}", bindery_api::crds_yaml());
}
