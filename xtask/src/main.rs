//! Checks, generators and set-up of the project; it must *never* be a dependency of what is shipped.
mod tools;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tools") => {
            tools::ensure(&tools::ALL)?;
            for tool in tools::ALL {
                anyhow::ensure!(tool.find().is_some(), "{tool:?} vanished after its set-up");
            }
            Ok(())
        }
        _ => anyhow::bail!("usage: cargo xtask tools"),
    }
}
