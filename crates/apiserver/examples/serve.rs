//! Serves an embedded API for trying it with `kubectl`: `serve ADDRESS [FOLDER]`.
#![expect(clippy::disallowed_methods, reason = "it reads its command line")]

use anyhow::Context as _;
use bindery_apiserver::{EmbeddedApi, Options, ServeOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("usage: serve ADDRESS [FOLDER]")?;
    let options = arguments
        .next()
        .map_or_else(Options::in_memory, Options::on_disk);
    let api = EmbeddedApi::open(options)?;
    let listener = TcpListener::bind(address).await?;
    let stop = CancellationToken::new();
    let serving = api.serve(listener, ServeOptions::default(), stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        biased;
        () = &mut serving => {}
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            serving.await;
        }
    }
    Ok(())
}
