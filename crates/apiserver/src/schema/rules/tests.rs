//! Rules compared with what a real server says.

use serde_json::{Value, json};

use crate::schema::{Structural, summary};

fn schema(spec: &Value) -> Result<Structural, String> {
    let whole = json!({"type": "object", "properties": {"spec": spec}});
    Structural::compile(&whole).map_err(|causes| summary(&causes))
}

fn spec(rules: &Value) -> Value {
    json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "ttl": {"type": "integer"}, "min": {"type": "integer"}, "name": {"type": "string"},
        "ratio": {"type": "number"}, "at": {"type": "string", "format": "date-time"},
        "my-field": {"type": "string"}, "namespace": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
                "kind": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "kind is fixed"}]}}}},
    }})
}

fn check(rules: &Value, value: &Value, old: Option<&Value>, expected: &str) {
    let schema = schema(&spec(rules)).unwrap();
    let whole = |spec: &Value| json!({"spec": spec});
    let causes = schema.validate(&whole(value), old.map(whole).as_ref());
    assert_eq!(summary(&causes), expected, "{rules} {value}");
}

#[test]
fn a_broken_rule_is_said_as_its_author_wished() {
    let value = json!({"ttl": 1, "min": 5});
    for (rule, expected) in [
        (
            json!({"rule": "self.ttl >= self.min"}),
            "spec: Invalid value: failed rule: self.ttl >= self.min",
        ),
        (
            json!({"rule": "self.ttl >= self.min", "message": "too short"}),
            "spec: Invalid value: too short",
        ),
        (
            json!({"rule": "self.ttl >= self.min", "messageExpression": "'ttl ' + string(self.ttl)", "fieldPath": ".ttl"}),
            "spec.ttl: Invalid value: ttl 1",
        ),
        (
            json!({"rule": "self.ttl >= self.min", "message": "no", "reason": "FieldValueForbidden"}),
            "spec: Forbidden: no",
        ),
        (
            json!({"rule": "self.ttl >= self.min", "message": "no", "messageExpression": "string(self.nothing)"}),
            "",
        ),
    ] {
        if expected.is_empty() {
            assert!(schema(&spec(&json!([rule]))).is_err());
        } else {
            check(&json!([rule]), &value, None, expected);
        }
    }
}

#[test]
fn a_scalar_is_shown_in_the_answer() {
    check(
        &json!([]),
        &json!({"ports": [{"port": 0}]}),
        None,
        "spec.ports[0].port: Invalid value: 0: failed rule: self > 0",
    );
}

#[test]
fn the_language_of_kubernetes_is_spoken() {
    let value = json!({"ttl": 300, "name": "Grüße", "ratio": 1, "at": "2026-01-01T00:00:00Z",
        "list": ["a", "b"], "labels": {"x-y": "1"}, "my-field": "m", "namespace": "n"});
    for rule in [
        "size(self.name) == 5",
        "self.name.size() == 5",
        "self.name.matches('^Gr.*e$')",
        "self.ratio >= 0.5 && self.ratio > 0",
        "self.at > timestamp('2025-01-01T00:00:00Z')",
        "has(self.name) && !has(self.min)",
        "self.list.all(x, x in ['a', 'b'])",
        "self.list.exists_one(x, x == 'a')",
        "self.list.map(x, x + '!').join(',') == 'a!,b!'",
        "self.labels['x-y'] == '1'",
        "self.my__dash__field == 'm' && self.__namespace__ == 'n'",
        "self.?min.orValue(7) == 7",
        "self.?ttl.hasValue() && self.?ttl.value() == 300",
        "isIP('192.0.2.1') && !isIP('x')",
        "self.list.isSorted()",
        "self.ttl in [300, 600]",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "self.name.lowerAscii().startsWith('gr')",
        "'%d-%s'.format([self.ttl, 'x']) == '300-x'",
        "true || self.min > 1",
        "dyn(self.ttl) == 300",
        "self.?labels.missing.orValue('none') == 'none'",
        "type(self.name) == string && type(self.ttl) == int",
        "string(self.at) == '2026-01-01T00:00:00Z'",
        "string(duration('2h')) == '7200s'",
    ] {
        check(&json!([{"rule": rule}]), &value, None, "[]");
    }
}

#[test]
fn a_rule_that_cannot_be_decided_says_why() {
    check(
        &json!([{"rule": "self.min > 0"}]),
        &json!({"ttl": 1}),
        None,
        r#"spec: Invalid value: "object": no such key: min evaluating rule: self.min > 0"#,
    );
    check(
        &json!([{"rule": "self.ttl / self.min > 0"}]),
        &json!({"ttl": 1, "min": 0}),
        None,
        r#"spec: Invalid value: "object": division by zero evaluating rule: self.ttl / self.min > 0"#,
    );
}

#[test]
fn transition_rules_need_an_old_value() {
    let rules = json!([{"rule": "self.ttl == oldSelf.ttl", "message": "ttl is fixed"}]);
    check(&rules, &json!({"ttl": 1}), None, "[]");
    check(&rules, &json!({"ttl": 1}), Some(&json!({"ttl": 1})), "[]");
    check(
        &rules,
        &json!({"ttl": 2}),
        Some(&json!({"ttl": 1})),
        "spec: Invalid value: ttl is fixed",
    );
    let optional = json!([{"rule": "!oldSelf.hasValue() || oldSelf.value().ttl == self.ttl",
        "optionalOldSelf": true, "message": "ttl is fixed"}]);
    check(&optional, &json!({"ttl": 1}), None, "[]");
    check(
        &optional,
        &json!({"ttl": 2}),
        Some(&json!({"ttl": 1})),
        "spec: Invalid value: ttl is fixed",
    );
    check(
        &json!([]),
        &json!({"ports": [{"port": 2, "kind": "b"}, {"port": 1, "kind": "x"}]}),
        Some(&json!({"ports": [{"port": 1, "kind": "a"}]})),
        "spec.ports[1].kind: Invalid value: \"x\": kind is fixed",
    );
}

#[test]
fn a_broken_rule_on_an_unchanged_value_passes() {
    let rules = json!([{"rule": "self.ttl > 10"}]);
    check(&rules, &json!({"ttl": 1}), Some(&json!({"ttl": 1})), "[]");
    check(
        &json!([]),
        &json!({"ttl": 2, "ports": [{"port": 0}]}),
        Some(&json!({"ttl": 1, "ports": [{"port": 0}]})),
        "[]",
    );
}

#[test]
fn rules_wait_until_types_are_right() {
    check(
        &json!([{"rule": "self.ttl > 10"}]),
        &json!({"ttl": "x"}),
        None,
        "[spec.ttl: Invalid value: \"string\": spec.ttl in body must be of type integer: \"string\", \
         <nil>: Invalid value: null: some validation rules were not checked because the object was \
         invalid; correct the existing errors to complete validation]",
    );
}

#[test]
fn rules_that_make_no_sense_are_refused_with_the_definition() {
    let refused = |rule: &str| schema(&spec(&json!([{"rule": rule}]))).unwrap_err();
    let answer = refused("self.nothing > 1");
    assert!(
        answer.starts_with(
            "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"
        ),
        "{answer}"
    );
    assert!(
        answer.contains("compilation failed: ERROR: <input>:1:5: undefined field 'nothing'"),
        "{answer}"
    );
    assert!(refused("self.ttl >").contains("compilation failed"));
    assert!(refused("nosuch(self.ttl)").contains("undeclared reference to 'nosuch'"));
    assert!(refused("Foo{a: 1} == 1").contains("compilation failed"));
    let deep = format!("{}self.ttl{} > 1", "(".repeat(400), ")".repeat(400));
    let _ = schema(&spec(&json!([{"rule": deep}])));
    let wide = vec!["self.ttl > 1"; 400].join(" && ");
    let _ = schema(&spec(&json!([{"rule": wide}])));
}

#[test]
fn nested_loops_over_long_lists_are_stopped() {
    let list: Vec<String> = (0..2000).map(|index| format!("{index}")).collect();
    check(
        &json!([{"rule": "self.list.all(x, self.list.exists(y, self.list.exists(z, x == y)))"}]),
        &json!({"list": list}),
        None,
        r#"spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run"#,
    );
}
