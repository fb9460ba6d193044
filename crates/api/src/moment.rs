//! Moments in the API's form.

use bindery_core::Moment;
use k8s_openapi::jiff::Timestamp;

/// A moment as Kubernetes writes times: RFC 3339, whole seconds.
///
/// One outside what a calendar can show becomes the beginning of 1970.
#[must_use]
pub fn time_text(moment: Moment) -> String {
    Timestamp::from_second(moment.0)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_whole_seconds() {
        assert_eq!(time_text(Moment(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(time_text(Moment(i64::MAX)), "1970-01-01T00:00:00Z");
    }
}
