//! Compares with answers recorded from kube-apiserver 1.36 (`recorded.json`): to definitions with rules, and to
//! objects.

use std::fmt::Write as _;

use super::*;
use crate::json::{Value, json};

fn recorded() -> Value {
    serde_json::from_str(include_str!("recorded.json")).expect("JSON")
}

/// Formats errors as the causes of a Status.
fn told(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(FieldError::cause).map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn objects_are_refused_with_the_same_words() {
    let mut differences = String::new();
    for case in recorded()["cases"].as_array().expect("cases") {
        let (schema, name) = (&case["schema"], text(case, "name"));
        let rules = CompiledRules::of(schema, name).unwrap_or_else(|| panic!("{name}: no rules"));
        let mut stored: Option<Value> = None;
        for step in case["steps"].as_array().expect("steps") {
            let object =
                json!({"apiVersion": "cel.io/v1", "kind": "X", "metadata": {"name": "cel"}, "spec": step["spec"]});
            let answer = told(&rules.judge(&object, stored.as_ref()));
            let expected: Vec<&str> =
                step["refused"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            if answer != expected {
                let _ = writeln!(differences, "{name} {}\n  expected {expected:#?}\n  got {answer:#?}", step["spec"]);
            }
            if expected.is_empty() {
                stored = Some(object);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn definitions_are_refused_with_the_same_words() {
    let mut differences = String::new();
    for case in recorded()["bad"].as_array().expect("cases") {
        let mut errors = ErrorList::new();
        check_schema(&case["schema"], "spec.validation.openAPIV3Schema", &mut errors);
        let answer = told(&errors);
        let answer = if answer.len() == 1 { answer[0].clone() } else { format!("[{}]", answer.join(", ")) };
        let expected = text(case, "message").split_once(" is invalid: ").map_or("", |(_, errors)| errors);
        if answer != expected {
            let _ = writeln!(differences, "{}\n  expected {expected}\n  got      {answer}", text(case, "name"));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn judge(rule: &str, spec: Value) -> Vec<String> {
    let field = |kind: &str| json!({"type": kind});
    let schema = json!({"type": "object", "properties": {
        "s": field("string"), "l": {"type": "array", "items": field("integer")}, "m": {"type": "object", "additionalProperties": field("integer")}},
        "x-kubernetes-validations": [{"rule": rule}]});
    CompiledRules::of(&schema, "x").map_or_else(Vec::new, |rules| told(&rules.judge(&spec, None)))
}

#[rstest::rstest]
#[case("self.l.isSorted() && self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3")]
#[case("self.l.indexOf(2) == 1 && self.l.lastIndexOf(3) == 2 && self.l.indexOf(9) == -1")]
#[case("self.l.map(x, x * 2) == [2, 4, 6] && self.l.exists_one(x, x == 1) && size(self.l) == 3")]
#[case("self.s.split(',').size() == 2 && self.s.replace(',', '-') == 'a-b' && self.s.upperAscii() == 'A,B'")]
#[case("self.s.substring(2) == 'b' && self.s.charAt(0) == 'a' && ['x', 'y'].join('-') == 'x-y'")]
#[case("math.greatest(1, 5) == 5 && [3, 1].sort() == [1, 3] && lists.range(2) == [0, 1]")]
#[case("quantity('1Gi').sub(quantity('1')).isInteger() && quantity('50M').compareTo(quantity('50M')) == 0")]
#[case("url('http://[::1]:80/a?b').getHostname() == '::1' && ip('::1').family() == 6")]
#[case("'k' in self.m && self.m.k == 1 && self.m['k'] == 1 && self.m.all(k, self.m[k] > 0)")]
fn functions_of_the_libraries(#[case] rule: &str) {
    assert_eq!(judge(rule, json!({"s": "a,b", "l": [1, 2, 3], "m": {"k": 1}})), Vec::<String>::new());
    let opposite = format!("!({rule})");
    assert_eq!(
        judge(&opposite, json!({"s": "a,b", "l": [1, 2, 3], "m": {"k": 1}})),
        [format!("<nil>: Invalid value: failed rule: {opposite}")]
    );
}

#[test]
fn a_rule_with_a_function_that_is_not_here_is_accepted_and_not_asked() {
    let schema = json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.m.all(k, v, v > 0)"}]});
    let mut errors = ErrorList::new();
    check_schema(&schema, "s", &mut errors);
    assert_eq!(told(&errors), Vec::<String>::new());
    assert!(CompiledRules::of(&schema, "x").is_none());
}
