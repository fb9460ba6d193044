//! The names that a Service asks for, in external-dns's annotations.

use k8s_openapi::api::core::v1::Service;

/// What external-dns's annotations begin with: now, and up to its version 0.21. The newer one counts first.
const PREFIXES: [&str; 2] = [
    "external-dns.kubernetes.io/",
    "external-dns.alpha.kubernetes.io/",
];

/// Seconds that answers may be cached where nobody says.
const TTL: u32 = 300;

/// The names that a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNames {
    /// The names.
    pub hostnames: Vec<String>,
    /// Seconds that answers may be cached.
    pub ttl: u32,
    /// What they lead to in place of the Service's own addresses.
    pub targets: Vec<String>,
}

/// The names that a Service asks for; `None` where it asks for none, or asks somebody else.
#[must_use]
pub fn service_names(service: &Service) -> Option<ServiceNames> {
    let annotations = service.metadata.annotations.as_ref()?;
    let value = |key: &str| {
        let mut keys = PREFIXES.iter().map(|prefix| format!("{prefix}{key}"));
        keys.find_map(|key| annotations.get(&key))
    };
    if value("controller").is_some_and(|who| who != "dns-controller") {
        return None;
    }
    let list = |text: &String| -> Vec<String> {
        let each = text.split(',').map(str::trim);
        let each = each.map(|one| one.strip_suffix('.').unwrap_or(one));
        let each = each.filter(|one| !one.is_empty());
        each.map(str::to_owned).collect()
    };
    let hostnames = value("hostname").map(list).unwrap_or_default();
    if hostnames.is_empty() {
        return None;
    }
    Some(ServiceNames {
        hostnames,
        ttl: value("ttl").and_then(|text| seconds(text)).unwrap_or(TTL),
        targets: value("target").map(list).unwrap_or_default(),
    })
}

/// Seconds, written as a number or as a duration such as `1h30m`.
fn seconds(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut total, mut digits) = (0_u32, String::new());
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        let amount: u32 = std::mem::take(&mut digits).parse().ok()?;
        total = total.checked_add(amount.checked_mul(unit)?)?;
    }
    (digits.is_empty() && total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(annotations: &serde_json::Value) -> Option<ServiceNames> {
        let object = json!({"metadata": {"annotations": annotations}});
        service_names(&serde_json::from_value(object).expect("a Service"))
    }

    #[test]
    fn names_are_read_under_both_prefixes_and_the_newer_one_counts_first() {
        let found = names(&json!({
            "external-dns.alpha.kubernetes.io/hostname": "www.example.com., api.example.com",
            "external-dns.alpha.kubernetes.io/ttl": "1m30s",
        }));
        let found = found.expect("it asks for names");
        assert_eq!(found.hostnames, ["www.example.com", "api.example.com"]);
        assert_eq!((found.ttl, found.targets.len()), (90, 0));
        let found = names(&json!({
            "external-dns.kubernetes.io/hostname": "new.example.com",
            "external-dns.alpha.kubernetes.io/hostname": "old.example.com",
            "external-dns.kubernetes.io/target": "192.0.2.1",
        }));
        let found = found.expect("it asks for names");
        assert_eq!(found.hostnames, ["new.example.com"]);
        assert_eq!(
            (found.ttl, found.targets),
            (300, vec!["192.0.2.1".to_owned()])
        );
    }

    #[test]
    fn a_service_without_a_name_or_for_somebody_else_asks_for_none() {
        assert_eq!(names(&json!({"x": "y"})), None);
        assert_eq!(
            names(&json!({"external-dns.kubernetes.io/hostname": " , "})),
            None
        );
        let other = json!({
            "external-dns.kubernetes.io/hostname": "www.example.com",
            "external-dns.kubernetes.io/controller": "somebody",
        });
        assert_eq!(names(&other), None);
    }

    #[test]
    fn a_ttl_is_a_number_or_a_duration() {
        for (text, wanted) in [
            ("60", Some(60)),
            ("1h", Some(3600)),
            ("1h1m1s", Some(3661)),
            ("", None),
            ("5x", None),
            ("0s", None),
            ("m", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }
}
