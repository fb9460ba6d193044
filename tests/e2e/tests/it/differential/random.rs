//! Random values from a seed, and random Widgets that are right most of the time.

use serde_json::{Map, Value, json};

/// A generator that gives the same for the same seed (splitmix64).
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds would otherwise walk the same sequence, one step apart.
        let mut random = Self { state: seed };
        Self {
            state: random.next().rotate_left(17),
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the choices.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let len = u64::try_from(choices.len()).unwrap_or(u64::MAX);
        let index = usize::try_from(self.below(len)).unwrap_or_default();
        &choices[index]
    }

    /// A spec with a few fields; `whole` ones have what is required.
    pub(crate) fn spec(&mut self, whole: Whole) -> Value {
        let mut spec = Map::new();
        if whole == Whole::Yes {
            spec.insert("size".to_owned(), json!(self.below(100)));
        }
        for _ in 0..self.below(4) {
            let (name, good, bad) = self.pick(FIELDS);
            let texts = if self.once_in(8) { bad } else { good };
            let text = self.pick(texts);
            let value = serde_json::from_str(text).expect("the table holds JSON");
            spec.insert((*name).to_owned(), value);
        }
        Value::Object(spec)
    }
}

/// Whether a spec must have what is required.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    Yes,
    No,
}

type Field = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Name, good values and bad values of the fields of a Widget.
const FIELDS: &[Field] = &[
    (
        "size",
        &["0", "7", "100"],
        &["-1", "101", "\"x\"", "1.5", "null", "[]"],
    ),
    ("minSize", &["0", "5"], &["\"x\"", "[]"]),
    ("maxSize", &["50", "200"], &["true", "1"]),
    ("replicas", &["0", "3"], &["-1", "null", "\"1\""]),
    (
        "color",
        &["\"red\"", "\"blue\""],
        &["\"pink\"", "7", "null"],
    ),
    (
        "code",
        &["\"ab\"", "\"abcdefgh\""],
        &["\"a\"", "\"ABC\"", "\"abcdefghi\"", "\"\""],
    ),
    ("ratio", &["0.5", "1"], &["0", "1.5", "\"0.5\""]),
    ("step", &["0", "10", "-5"], &["7", "2.5"]),
    ("enabled", &["true", "false"], &["\"yes\"", "0"]),
    ("note", &["null", "\"text\"", "\"\""], &["5", "{}"]),
    (
        "when",
        &[
            "\"2026-01-02T03:04:05Z\"",
            "\"2026-01-02T03:04:05.5+01:00\"",
        ],
        &["\"noon\"", "\"2026-13-01T00:00:00Z\""],
    ),
    (
        "address",
        &["\"192.0.2.1\""],
        &["\"1.2.3\"", "\"::1\"", "\"\""],
    ),
    ("blob", &["\"aGVsbG8=\"", "\"\""], &["\"%%\"", "\"abc\""]),
    ("portOrName", &["80", "\"http\""], &["1.5", "true", "[1]"]),
    ("fixed", &["\"one\"", "\"two\""], &["1"]),
    (
        "anything",
        &["{}", "{\"a\": [1, {\"b\": null}]}", "{\"x\": 1.5}"],
        &["[]", "\"x\""],
    ),
    (
        "template",
        &["{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"x\"}}"],
        &["{}", "{\"kind\": \"Pod\"}", "1"],
    ),
    (
        "nested",
        &["{}", "{\"depth\": 1}", "{\"label\": \"x\"}"],
        &["{\"depth\": \"x\"}", "null", "{\"odd\": 1}"],
    ),
    (
        "map",
        &["{}", "{\"a\": \"1\"}", "{\"b\": \"2\", \"c\": \"3\"}"],
        &[
            "{\"a\": 1}",
            "{\"a\": \"toolong\"}",
            "{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\"}",
        ],
    ),
    (
        "tags",
        &["[]", "[\"a\"]", "[\"b\", \"c\"]"],
        &["[\"a\", \"a\"]", "[1]", "\"a\""],
    ),
    (
        "plain",
        &["[1]", "[3, 2, 1]"],
        &["[]", "[1, 2, 3, 4]", "[\"x\"]"],
    ),
    (
        "ports",
        &[
            "[]",
            "[{\"name\": \"a\", \"port\": 1}]",
            "[{\"name\": \"b\", \"port\": 2, \"protocol\": \"UDP\"}, {\"name\": \"a\", \"port\": 3}]",
        ],
        &[
            "[{\"name\": \"a\"}]",
            "[{\"name\": \"a\", \"port\": 0}]",
            "[{\"name\": \"a\", \"port\": 1}, {\"name\": \"a\", \"port\": 2}]",
            "[1]",
        ],
    ),
    (
        "bundle",
        &["{}", "{\"a\": \"1\"}", "{\"b\": \"2\"}"],
        &["{\"a\": 1}"],
    ),
    (
        "choice",
        &["{\"left\": \"x\"}", "{\"right\": \"y\"}"],
        &["{}", "{\"left\": \"x\", \"right\": \"y\"}"],
    ),
    ("unknown", &["1"], &["{\"a\": 1}"]),
];
