//! Messages and behaviour compared with what a real server answers.

use serde_json::{Value, json};

use crate::schema::{Structural, summary};

fn schema(spec: &Value) -> Structural {
    let whole = json!({"type": "object", "properties": {"spec": spec}});
    Structural::compile(&whole).unwrap()
}

fn check(spec: &Value, value: &Value, expected: &str) {
    let causes = schema(spec).validate(&json!({"spec": value}), None);
    assert_eq!(summary(&causes), expected, "{value}");
}

fn record() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "ttl": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2_147_483_647},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "address": {"type": "string", "format": "ipv4"},
        "mode": {"type": "string", "enum": ["A", "B"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        "ratio": {"type": "number", "minimum": 0.5, "exclusiveMinimum": true},
        "port": {"x-kubernetes-int-or-string": true},
    }})
}

#[test]
fn refusals_read_like_the_real_servers() {
    let ttl = record();
    let with = |name: &str, value: Value| {
        let mut spec = json!({"name": "www"});
        spec[name] = value;
        spec
    };
    for (value, expected) in [
        (
            with("ttl", json!(-1)),
            "spec.ttl: Invalid value: -1: spec.ttl in body should be greater than or equal to 0",
        ),
        (
            with("ttl", json!("x")),
            r#"spec.ttl: Invalid value: "string": spec.ttl in body must be of type integer: "string""#,
        ),
        (
            with("ttl", json!(null)),
            r#"spec.ttl: Invalid value: "null": spec.ttl in body must be of type integer: "null""#,
        ),
        (
            with("ttl", json!(3_000_000_000_i64)),
            r#"[<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.ttl, spec.ttl: Invalid value: 3000000000: spec.ttl in body should be less than or equal to 2147483647]"#,
        ),
        (json!({}), "spec.name: Required value"),
        (
            with("name", json!("A!")),
            r#"spec.name: Invalid value: "A!": spec.name in body should match '^[a-z]+$'"#,
        ),
        (
            with("name", json!("a")),
            r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#,
        ),
        (
            with("name", json!("abcdefg")),
            "spec.name: Too long: may not be more than 5 bytes",
        ),
        (
            with("address", json!("1.2.3")),
            r#"spec.address: Invalid value: "1.2.3": spec.address in body must be of type ipv4: "1.2.3""#,
        ),
        (
            with("mode", json!("C")),
            r#"spec.mode: Unsupported value: "C": supported values: "A", "B""#,
        ),
        (
            with("labels", json!({"a": 1})),
            r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
        ),
        (
            with("list", json!(["a", 1])),
            r#"[spec.list[1]: Invalid value: "integer": spec.list[1] in body must be of type string: "integer", spec.list: Too many: 2: must have at most 1 item]"#,
        ),
        (
            with("ratio", json!(0.5)),
            "spec.ratio: Invalid value: 0.5: spec.ratio in body should be greater than 0.5",
        ),
        (
            with("port", json!(1.5)),
            r#"spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number""#,
        ),
    ] {
        check(&ttl, &value, expected);
    }
    check(&ttl, &with("port", json!("http")), "[]");
    check(&ttl, &with("ttl", json!(300.0)), "[]");
}

#[test]
fn alternatives_are_counted() {
    let spec = json!({"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(
        &spec,
        &json!({}),
        r#"[<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid, spec.a: Required value]"#,
    );
    check(
        &spec,
        &json!({"a": "x", "b": "y"}),
        r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
    );
    check(&spec, &json!({"b": "y"}), "[]");
}

#[test]
fn a_mistake_that_an_update_leaves_alone_passes() {
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 10}, "b": {"type": "integer", "minimum": 10}}});
    let schema = schema(&spec);
    let old = json!({"spec": {"a": 1, "b": 20}});
    let kept = json!({"spec": {"a": 1, "b": 30}});
    assert_eq!(schema.validate(&kept, Some(&old)), []);
    let changed = json!({"spec": {"a": 2, "b": 20}});
    assert_eq!(schema.validate(&changed, Some(&old)).len(), 1);
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let schema = schema(&json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}},
    }}));
    let mut object = json!({
        "apiVersion": "v1", "kind": "T", "metadata": {"name": "x", "labels": {"a": "b"}},
        "top": 1,
        "spec": {
            "known": {"x": 1, "z": 2}, "list": [{"y": "a"}, {"q": 1}],
            "free": {"any": {"thing": 1}}, "map": {"k": {"gone": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {}},
        },
    });
    let dropped = schema.prune(&mut object);
    assert_eq!(
        dropped,
        [
            "spec.known.z",
            "spec.list[1].q",
            "spec.map.k.gone",
            "spec.pod.status",
            "top"
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "T", "metadata": {"name": "x", "labels": {"a": "b"}},
            "spec": {
                "known": {"x": 1}, "list": [{"y": "a"}, {}], "free": {"any": {"thing": 1}},
                "map": {"k": {}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
            },
        })
    );
}

#[test]
fn defaults_fill_gaps_and_forbidden_nulls() {
    let schema = schema(&json!({"type": "object", "properties": {
        "soa": {"type": "object", "default": {}, "properties": {
            "refresh": {"type": "integer", "default": 3600}}},
        "ttl": {"type": "integer", "default": 300},
        "note": {"type": "string", "nullable": true, "default": "n"},
        "plain": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {
            "port": {"type": "integer", "default": 53}}}},
    }}));
    let mut object = json!({"spec": {"ttl": null, "note": null, "plain": null, "list": [{}]}});
    schema.apply_defaults(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"soa": {"refresh": 3600}, "ttl": 300, "note": null, "list": [{"port": 53}]}})
    );
}

#[test]
fn set_and_map_lists_hold_each_key_once() {
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}},
    }});
    check(
        &spec,
        &json!({"set": ["a", "b", "a", "a"], "map": [{"type": "Ready"}, {"type": "Ready"}]}),
        r#"[spec.map[1]: Duplicate value: {"type":"Ready"}, spec.set[2]: Duplicate value: "a"]"#,
    );
}

#[test]
fn a_schema_that_is_not_structural_is_refused() {
    let compile = |spec: Value| {
        let whole = json!({"type": "object", "properties": {"spec": spec}});
        summary(&Structural::compile(&whole).unwrap_err())
    };
    assert_eq!(
        compile(json!({"properties": {}})),
        "openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields"
    );
    assert_eq!(
        compile(json!({"type": "array"})),
        "openAPIV3Schema.properties[spec].items: Required value: must be specified"
    );
    assert_eq!(
        compile(json!({"type": "object", "oneOf": [{"type": "string"}]})),
        "openAPIV3Schema.properties[spec].oneOf[0].type: Forbidden: must be empty to be structural"
    );
    assert_eq!(
        compile(json!({"type": "integer", "default": "x"})),
        r#"openAPIV3Schema.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string""#
    );
    let mut deep = json!({"type": "object"});
    for _ in 0..150 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert!(Structural::compile(&deep).is_err());
}

#[test]
fn status_is_checked_from_its_own_root() {
    let whole = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"]},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}});
    let schema = Structural::compile(&whole).unwrap();
    let new = json!({"spec": {}, "status": {"ready": "yes"}});
    assert_eq!(
        summary(&schema.validate_status(&new, Some(&json!({"spec": {}})))),
        r#"status.ready: Invalid value: "string": ready in body must be of type boolean: "string""#
    );
}
