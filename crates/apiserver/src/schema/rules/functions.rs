//! The functions that rules may call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::{Key, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};
use regex::Regex;

use crate::schema::compile;

/// The name under which we do the work of the operator `.?`.
pub(crate) const OPTIONAL_SELECT: &str = "@optional_select";
/// The name under which we print times and durations before they become strings.
pub(crate) const PRINTED_TIME: &str = "@printed_time";
/// Types by name, as `type()` gives them.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "uint",
];
/// Compiled patterns kept per thread; a rule's patterns are nearly always literals.
const PATTERNS_MAX: usize = 256;

/// Functions of the language itself.
const STANDARD: &[&str] = &[
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "hasValue",
    "int",
    "matches",
    "max",
    "min",
    "none",
    "of",
    "ofNonZeroValue",
    "or",
    "orValue",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
    "value",
];
/// Functions that Kubernetes adds.
const KUBERNETES: &[&str] = &[
    "abs",
    "add",
    "asApproximateFloat",
    "asInteger",
    "bitAnd",
    "bitNot",
    "bitOr",
    "bitShiftLeft",
    "bitShiftRight",
    "bitXor",
    "byte",
    "ceil",
    "charAt",
    "cidr",
    "compareTo",
    "containsCIDR",
    "containsIP",
    "date",
    "datetime",
    "decode",
    "distinct",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "encode",
    "equivalent",
    "escapeKey",
    "family",
    "find",
    "findAll",
    "first",
    "flatten",
    "floor",
    "format",
    "getEscapedPath",
    "getHost",
    "getHostname",
    "getPort",
    "getQuery",
    "getScheme",
    "greatest",
    "indexOf",
    "intersects",
    "ip",
    "isCIDR",
    "isCIDRv4",
    "isCIDRv6",
    "isCanonical",
    "isFinite",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isIPv4",
    "isIPv6",
    "isInf",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isNaN",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "labelValue",
    "last",
    "lastIndexOf",
    "least",
    "lowerAscii",
    "major",
    "masked",
    "minor",
    "named",
    "patch",
    "prefixLength",
    "qualifiedName",
    "quantity",
    "quote",
    "range",
    "replace",
    "reverse",
    "round",
    "semver",
    "sign",
    "slice",
    "sort",
    "split",
    "sqrt",
    "sub",
    "substring",
    "sum",
    "trim",
    "trunc",
    "upperAscii",
    "uri",
    "url",
    "uuid",
    "validate",
];

/// A context that knows all functions and no variables.
pub(crate) fn base() -> &'static Context<'static> {
    static BASE: LazyLock<Context<'static>> = LazyLock::new(|| {
        let mut context = Context::default().with_all();
        context.add_function("matches", matches);
        context.add_function("size", size);
        context.add_function("dyn", Ok::<Value, ExecutionError>);
        context.add_function(OPTIONAL_SELECT, optional_select);
        context.add_function(PRINTED_TIME, printed_time);
        context.add_function("type", type_name);
        for name in TYPES {
            context.add_variable_from_value(*name, type_value(name));
        }
        context
    });
    &BASE
}

/// Whether rules may call a function of this name.
pub(crate) fn is_known(name: &str) -> bool {
    STANDARD.contains(&name) || KUBERNETES.contains(&name)
}

fn matches(
    context: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    thread_local! {
        static PATTERNS: RefCell<BTreeMap<Arc<String>, Regex>> = const { RefCell::new(BTreeMap::new()) };
    }
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(regex) = patterns.get(&pattern) {
            return Ok(regex.is_match(&text));
        }
        let regex = compile::regex(&pattern).map_err(|why| context.error(why))?;
        let found = regex.is_match(&text);
        if patterns.len() >= PATTERNS_MAX {
            patterns.clear();
        }
        patterns.insert(pattern, regex);
        Ok(found)
    })
}

/// Strings count in characters, not bytes.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the interpreter's and grows with it"
)]
fn size(
    context: &FunctionContext<'_, '_>,
    This(value): This<Value>,
) -> Result<i64, ExecutionError> {
    let count = match &value {
        Value::String(text) => text.chars().count(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => return Err(context.error("no such overload")),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The type of a value, equal to the variable of that name.
#[expect(
    clippy::wildcard_enum_match_arm,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the interpreter takes functions that can fail, and its enum grows with it"
)]
fn type_name(value: Value) -> Result<Value, ExecutionError> {
    let name = match &value {
        Value::Bool(_) => "bool",
        Value::Bytes(_) => "bytes",
        Value::Float(_) => "double",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::String(_) => "string",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Duration(_) => "google.protobuf.Duration",
        _ => "dyn",
    };
    Ok(type_value(name))
}

fn type_value(name: &str) -> Value {
    Value::String(Arc::new(format!("@type {name}")))
}

/// Times as `2021-01-01T00:00:00Z`, durations as `7200s`; all else as it is.
#[expect(
    clippy::wildcard_enum_match_arm,
    clippy::unnecessary_wraps,
    reason = "the interpreter takes functions that can fail, and its enum grows with it"
)]
fn printed_time(value: Value) -> Result<Value, ExecutionError> {
    let text = match &value {
        Value::Timestamp(time) => time.to_utc().format("%Y-%m-%dT%H:%M:%S%.fZ").to_string(),
        Value::Duration(span) => {
            let nanos = span.subsec_nanos().unsigned_abs();
            let sign = if span.num_seconds() == 0 && span.subsec_nanos() < 0 {
                "-"
            } else {
                ""
            };
            let fraction = format!(".{nanos:09}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            format!("{sign}{}{fraction}s", span.num_seconds())
        }
        _ => return Ok(value),
    };
    Ok(Value::String(Arc::new(text)))
}

/// `value.?name`: the member if there is one.
#[expect(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the interpreter takes functions that can fail and hands them their arguments"
)]
fn optional_select(value: Value, name: Arc<String>) -> Result<Value, ExecutionError> {
    let opened = if let Value::Opaque(opaque) = &value {
        let optional = opaque.downcast_ref::<OptionalValue>();
        optional.and_then(OptionalValue::value)
    } else {
        Some(&value)
    };
    let member = opened.and_then(|holder| {
        let Value::Map(map) = holder else {
            return None;
        };
        map.map.get(&Key::String(name)).cloned()
    });
    let optional = member.map_or_else(OptionalValue::none, OptionalValue::of);
    Ok(Value::Opaque(Arc::new(optional)))
}
