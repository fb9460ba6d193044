//! Log lines on stderr.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::cli::{LogFormat, Logging};
use crate::otlp::{self, OtlpExport};
use crate::out::{self, LogLines};
use crate::surroundings;

/// The filter where log lines tell what happens: each commit, refusal and the like.
pub(crate) const STORY: &str = "info,kube=warn";

/// The client says of each connection that it does not check the certificate; we say it once.
const NOT_EVERY_TIME: &str = "kube_client::client::tls=error";

/// Spans that are exported have this target.
const NO_SPANS: &str = "bindery::trace=off";

/// Whether log lines are JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sends log lines that pass the filter, or `default` where none was given, to stderr, and spans to a collector where
/// one was given: what sends them is returned, to be run.
pub(crate) fn start(
    flags: &Logging,
    default: &str,
    collector: Option<&str>,
) -> Result<Option<OtlpExport>> {
    let text = flags.log.as_deref().unwrap_or(default);
    let filter = filter(text)?;
    let collector = collector.filter(|text| !text.is_empty());
    let (spans, export) = collector.map(otlp::open).transpose()?.unzip();
    let spans = spans.map(|layer| layer.with_filter(otlp::filter()));
    let registry = tracing_subscriber::registry().with(spans);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(is_colourful())
        .with_writer(LogLines::default);
    match flags.log_format {
        LogFormat::Text => registry
            .with(lines.with_target(false).with_filter(filter))
            .init(),
        LogFormat::Json => {
            registry.with(lines.json().with_filter(filter)).init();
            IS_JSON.store(true, Ordering::Relaxed);
            // Whoever reads JSON reads it to the last line.
            std::panic::set_hook(Box::new(|panic| {
                tracing::error!(%panic, "a part of Bindery fell; please report this");
            }));
        }
    }
    Ok(export)
}

/// What of a filter's text becomes lines. Spans are for collectors; in lines they would say everything twice.
pub(crate) fn filter(text: &str) -> Result<EnvFilter> {
    let mut filter = EnvFilter::try_new(text).with_context(|| {
        format!("--log {text:?} is not a filter; try info or bindery_dns=debug")
    })?;
    for ours in [NOT_EVERY_TIME, NO_SPANS] {
        let directive = ours.parse().context("our own filter is one")?;
        filter = filter.add_directive(directive);
    }
    Ok(filter)
}

/// Says why the process ends, as the last line.
pub(crate) fn complain(error: &anyhow::Error) {
    let error = chain(error);
    if IS_JSON.load(Ordering::Relaxed) && tracing::enabled!(Level::ERROR) {
        tracing::error!(error, "bindery ends");
    } else {
        out::complain(&format!("bindery: {error}"));
    }
}

/// An error and its causes in one line, in the words of the API server where it gave a reason.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let (text, is_last) = match cause.downcast_ref() {
            Some(kube::Error::Api(status)) => (status.message.clone(), true),
            Some(_) | None => (cause.to_string(), false),
        };
        if line.is_empty() {
            line = text;
        } else if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        if is_last {
            break;
        }
    }
    line
}

/// Colours are for terminals of people who want them.
fn is_colourful() -> bool {
    io::stderr().is_terminal() && surroundings::variable("NO_COLOR").is_none()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_error_of_the_api_is_told_in_its_own_words() {
        let status = Status::failure("dnszones is forbidden: no", "Forbidden").with_code(403);
        let error = anyhow::Error::new(kube::Error::Api(Box::new(status)));
        let error = error.context("cannot list dnszones");
        assert_eq!(
            chain(&error),
            "cannot list dnszones: dnszones is forbidden: no"
        );
    }

    #[test]
    fn what_a_cause_repeats_is_said_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(chain(&error), "cannot read x: no such file");
    }
}
