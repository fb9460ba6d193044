//! Log lines on stderr.

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::{LogFormat, Watching};
use crate::out::LogLines;

/// Sends log lines that pass the filter, or `default` where none was given, to stderr.
pub(crate) fn start(flags: &Watching, default: &str) -> Result<()> {
    let text = flags.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(text).with_context(|| {
        format!("--log {text:?} is not a filter; try info or bindery_dns=debug")
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(LogLines::default);
    match flags.log_format {
        LogFormat::Text => registry.with(lines.with_target(false)).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(())
}
