//! Placeholder until its part lands.
fn main() {}
