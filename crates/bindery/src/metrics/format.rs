//! The two forms in which numbers are read: `OpenMetrics`, and the text that was there before it.

use std::borrow::Cow;

/// The content type of `OpenMetrics` text.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the classic text, which everything reads that reads Prometheus' format.
pub(super) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether an `Accept` header asks for `OpenMetrics`, and not rather for plain text.
pub(super) fn wants_open_metrics(accept: &str) -> bool {
    let weight_of = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
            is_wanted.then(|| weight(parts))
        });
        ranges.fold(0.0, f64::max)
    };
    let open = weight_of("application/openmetrics-text");
    open > 0.0 && open >= weight_of("text/plain")
}

/// The weight among the parameters of a media range (RFC 9110 section 12.4.2).
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f64 {
    let weight =
        parameters.find_map(|one| one.strip_prefix("q=").or_else(|| one.strip_prefix("Q=")));
    weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0))
}

/// `OpenMetrics` text as classic text: metadata has the name that the samples have, and there are only
/// the old types.
pub(super) fn classic(page: &str) -> String {
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    let mut help = None;
    for line in page.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        // Its type decides what name it has.
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ').map(|(_, text)| text);
            continue;
        }
        let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        else {
            lines.push(line.into());
            continue;
        };
        let (suffix, kind) = match kind {
            "counter" => ("_total", kind),
            "info" => ("_info", "gauge"),
            "unknown" => ("", "untyped"),
            _ => ("", kind),
        };
        if let Some(help) = help.take() {
            lines.push(format!("# HELP {name}{suffix} {help}").into());
        }
        lines.push(format!("# TYPE {name}{suffix} {kind}").into());
    }
    // The last line ends too.
    lines.push("".into());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, wanted) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("text/html, application/xhtml+xml, */*;q=0.8", false),
            ("application/openmetrics-text;q=0", false),
            (
                "text/plain;version=0.0.4, application/openmetrics-text; q=0.5",
                false,
            ),
        ] {
            assert_eq!(wants_open_metrics(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn classic_text_has_the_old_types_and_the_names_of_the_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\n# UNIT a seconds\na_total 1\n\
                    # HELP b Build.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                    # HELP c Sizes.\n# TYPE c histogram\nc_sum 1.0\nc_count 1\n\
                    c_bucket{le=\"+Inf\"} 1\n# EOF\n";
        let classic = "# HELP a_total Things.\n# TYPE a_total counter\na_total 1\n\
                       # HELP b_info Build.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n\
                       # HELP c Sizes.\n# TYPE c histogram\nc_sum 1.0\nc_count 1\n\
                       c_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(super::classic(open), classic);
    }
}
