//! What every `named` of ours is told, whoever writes its configuration and wherever it runs.

use std::fmt::Write as _;

/// Where the `named` of a pod looks for its configuration.
pub const CONFIGURATION: &str = "/etc/bind";

/// Where the `named` of a pod keeps what it writes.
pub const STATE: &str = "/var/cache/bind";

/// Options for speed and safety that every server has, in any role.
pub const OPTIONS: [(&str, &str); 22] = [
    ("allow-new-zones", "yes"),
    ("empty-zones-enable", "no"),
    ("minimal-responses", "yes"),
    ("check-names primary", "ignore"),
    ("check-names secondary", "ignore"),
    ("check-integrity", "no"),
    ("check-mx", "ignore"),
    ("check-spf", "ignore"),
    ("version", "none"),
    ("hostname", "none"),
    ("server-id", "none"),
    ("interface-interval", "0"),
    // The defaults keep changes back for seconds, so that a busy server is not overrun.
    ("notify-delay", "0"),
    ("notify-rate", "1000"),
    ("startup-notify-rate", "1000"),
    ("serial-query-rate", "1000"),
    ("transfers-in", "500"),
    ("transfers-out", "500"),
    ("transfers-per-ns", "500"),
    ("tcp-clients", "1000"),
    ("tcp-listen-queue", "1000"),
    ("update-quota", "1000"),
];

/// Options of a server that copies its zones.
///
/// `named` can miss word of a change that comes while it looks, so it looks often. The first look after a start
/// comes when a retry would, so that is soon. The file is text like that of a primary.
pub const SECONDARY_OPTIONS: [(&str, &str); 6] = [
    ("notify", "no"),
    ("masterfile-format", "text"),
    ("min-refresh-time", "1"),
    ("max-refresh-time", "20"),
    ("min-retry-time", "1"),
    ("max-retry-time", "5"),
];

/// Options that not every version has.
///
/// Record sets are as large as their objects say; the default refuses the 101st record. Who asks for
/// differences wants them even where the whole zone is shorter.
pub const OPTIONAL_OPTIONS: [(&str, &str); 4] = [
    ("max-ixfr-ratio", "unlimited"),
    ("max-records-per-type", "0"),
    ("max-types-per-name", "0"),
    ("lock-file", "none"),
];

/// Options as lines of the block `options`.
#[must_use]
pub fn option_lines<'a>(options: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (option, value) in options {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\t{option} {value};");
    }
    text
}

/// The block `logging`: warnings and what concerns whole zones go to `place`; nothing per query or update.
#[must_use]
pub fn logging(place: &str) -> String {
    format!(
        "logging {{
	channel bindery {{
		{place};
		severity info;
		print-time iso8601;
		print-severity yes;
		print-category yes;
	}};
	// What happens for each update, transfer or question is \"info\"; two channels must not share a
	// file.
	channel trouble {{
		stderr;
		severity notice;
		print-time iso8601;
		print-severity yes;
		print-category yes;
	}};
	category default {{ bindery; }};
	category update-security {{ trouble; }};
	category xfer-out {{ trouble; }};
	category query-errors {{ trouble; }};
	category queries {{ null; }};
	category update {{ null; }};
	category lame-servers {{ null; }};
	category edns-disabled {{ null; }};
}};
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_lines_and_the_log_goes_where_it_is_told() {
        let lines = option_lines(&[("notify", "no"), ("recursion", "yes")]);
        assert_eq!(lines, "\tnotify no;\n\trecursion yes;\n");
        let text = logging("file \"named.log\"");
        assert!(text.contains("\t\tfile \"named.log\";\n"), "{text}");
        assert!(text.contains("category default { bindery; };"), "{text}");
    }
}
