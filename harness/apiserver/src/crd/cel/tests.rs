//! Compares with answers recorded from kube-apiserver 1.36 (`recorded.json`): to definitions with rules, and to
//! objects.

use std::fmt::Write as _;

use super::*;
use crate::json::{Value, json};

fn recorded() -> Value {
    serde_json::from_str(include_str!("recorded.json")).expect("JSON")
}

/// Formats errors as the causes of a Status.
fn described(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(FieldError::cause).map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn objects_are_refused_with_the_same_words() {
    let mut differences = String::new();
    for case in recorded()["cases"].as_array().expect("cases") {
        let schema = &case["schema"];
        let name = text(case, "name");
        let rules = CompiledRules::of(schema).unwrap_or_else(|| panic!("{name}: no rules"));
        let mut stored: Option<Value> = None;
        for step in case["steps"].as_array().expect("steps") {
            let object =
                json!({"apiVersion": "cel.io/v1", "kind": "X", "metadata": {"name": "cel"}, "spec": step["spec"]});
            let answer = described(&rules.judge(&object, stored.as_ref()));
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
        let answer = described(&errors);
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
    CompiledRules::of(&schema).map_or_else(Vec::new, |rules| described(&rules.judge(&spec, None)))
}

#[rstest::rstest]
#[case("self.l.isSorted() && self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3")]
#[case("self.l.indexOf(2) == 1 && self.l.lastIndexOf(3) == 2 && self.l.indexOf(9) == -1")]
#[case("self.l.map(x, x * 2) == [2, 4, 6] && self.l.exists_one(x, x == 1) && size(self.l) == 3")]
#[case("self.s.split(',').size() == 2 && self.s.replace(',', '-') == 'a-b' && self.s.upperAscii() == 'A,B'")]
#[case("self.s.substring(2) == 'b' && self.s.charAt(0) == 'a' && ['x', 'y'].join('-') == 'x-y'")]
#[case("[3, 1].sort() == [1, 3] && lists.range(2) == [0, 1]")]
#[case("url('https://e.com/p?k=a&k=b').getQuery() == {'k': ['a', 'b']} && url('/p').getQuery().size() == 0")]
#[case(
    "format.named('uuid').value() == format.uuid() && format.uuid() != format.date() && !format.named('x').hasValue()"
)]
#[case(
    "!format.dns1123Label().validate('a-b').hasValue() && format.date().validate(self.s).value() == ['invalid date']"
)]
#[case("quantity('1Gi').sub(quantity('1')).isInteger() && quantity('50M').compareTo(quantity('50M')) == 0")]
#[case("url('http://[::1]:80/a?b').getHostname() == '::1' && ip('::1').family() == 6")]
#[case("'k' in self.m && self.m.k == 1 && self.m['k'] == 1 && self.m.all(k, self.m[k] > 0)")]
#[case("self.l.all(i, v, v == i + 1) && self.l.exists(i, v, i == 2 && v == 3) && self.l.existsOne(i, v, v > 2)")]
#[case("self.m.all(k, v, k == 'k' && v == 1) && self.l.transformList(i, v, i * v) == [0, 2, 6]")]
#[case("self.l.transformList(i, v, i > 0, v) == [2, 3] && self.l.transformMap(i, v, v > 2, v) == {2: 3}")]
#[case("self.m.transformMap(k, v, v + 1) == {'k': 2} && self.m.transformMapEntry(k, v, {v: k}) == {1: 'k'}")]
#[case("optional.of(self.s).optMap(x, x + '!').value() == 'a,b!' && !optional.none().optMap(x, x).hasValue()")]
#[case("semver('1.2.3').compareTo(semver('1.2.3-rc.1')) == 1 && semver('v1.2', true).minor() == 2")]
#[case(
    "isSemver('1.2.3') && !isSemver('1.2') && isSemver('1.2', true) && semver('1.9.0').isLessThan(semver('1.10.0'))"
)]
#[case("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))")]
#[case("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::1/64').prefixLength() == 64")]
#[case("ip('127.0.0.1').isLoopback() && ip('10.0.0.1').isGlobalUnicast() && ip('fe80::1').isLinkLocalUnicast()")]
#[case("string(ip('1.2.3.4')) == '1.2.3.4' && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'")]
#[case("string(cidr('10.1.0.0/8')) == '10.1.0.0/8' && string(ip('2001:DB8:0::1')) == '2001:db8::1'")]
#[case("duration('1h' + '1.5m') == duration('61m30s')")]
#[case("int(duration('1s')) == 1000000000 && int(duration('-1ms')) == -1000000")]
#[case("self.l.first().value() == 1 && self.l.last().value() == 3 && ![].first().hasValue()")]
#[case("[optional.of(1), optional.none()].unwrapOpt() == [1] && optional.unwrap([optional.of('a')]) == ['a']")]
#[case("!'٣'.matches('^\\\\d$') && '{a}'.matches('^{a}$') && 'xé1'.find('\\\\w+') == 'x'")]
#[case("ip('::').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast() && !ip.isCanonical('0:0::1')")]
fn functions_of_the_libraries(#[case] rule: &str) {
    assert_eq!(judge(rule, json!({"s": "a,b", "l": [1, 2, 3], "m": {"k": 1}})), Vec::<String>::new());
    let opposite = format!("!({rule})");
    assert_eq!(
        judge(&opposite, json!({"s": "a,b", "l": [1, 2, 3], "m": {"k": 1}})),
        [format!("<nil>: Invalid value: failed rule: {opposite}")]
    );
}

/// The values are those of `unstructuredMapList` and `unstructuredSetList` in
/// `staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go`.
#[rstest::rstest]
#[case::order_of_a_set("self.s == ['a', 'b'] && self.s != ['a', 'c'] && self.s != ['a'] && self.s[0] == 'b'")]
#[case::the_left_side_decides("['a', 'b'] != self.s && ['b', 'a'] == self.s")]
#[case::union(
    "self.s + ['c', 'a', 'c'] == ['a', 'b', 'c'] && (self.s + ['c'])[2] == 'c' && (self.s + ['a']).size() == 2"
)]
#[case::a_list_is_concatenated("(['a'] + self.s).size() == 3 && (self.s.map(x, x) + ['a']).size() == 3")]
#[case::order_with_the_old_value("self.m[0].k == 2 && oldSelf.m[0].k == 1 && self.m == oldSelf.m")]
#[case::merge(
    "(self.m + oldSelf.n)[1].v == 'new' && (self.m + oldSelf.n)[0].k == 2 && (self.m + oldSelf.n).size() == 3"
)]
#[case::merged_again("self.m + oldSelf.m == self.m && self.m + oldSelf.n != self.m")]
#[case::nested("self.o == oldSelf.o && [self.s] == [['a', 'b']] && self.s in [['b', 'a']]")]
#[case::numbers("self.d == [2.0, 1.0] && self.d + [1.0] == [1.0, 2.0]")]
fn lists_of_type_set_and_map(#[case] rule: &str) {
    let text = json!({"type": "string"});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": text});
    let item = json!({"type": "object", "properties": {"k": {"type": "integer"}, "v": text}});
    let map =
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
    let numbers = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}});
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
        "properties": {"s": set, "m": map, "n": map, "d": numbers, "o": {"type": "object", "properties": {"s": set}}}});
    let old = json!({"s": ["a", "b"], "m": [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}], "d": [1],
        "n": [{"k": 1, "v": "new"}, {"k": 3, "v": "z"}], "o": {"s": ["a", "b"]}});
    let new = json!({"s": ["b", "a"], "m": [{"k": 2, "v": "y"}, {"k": 1, "v": "x"}], "d": [1, 2], "n": [],
        "o": {"s": ["b", "a"]}});
    let rules = CompiledRules::of(&schema).expect("a rule");
    assert_eq!(described(&rules.judge(&new, Some(&old))), Vec::<String>::new());
}

/// Definitions are refused for a regular expression that is a literal, objects for others, and for durations.
#[test]
fn texts_that_go_does_not_read() {
    let schema = |rule: &str, message: &str| {
        json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": rule, "messageExpression": message}]})
    };
    let refused = |schema: &Value| {
        let mut errors = ErrorList::new();
        check_schema(schema, "s", &mut errors);
        let last = |text: String| text.split("}: ").last().unwrap_or_default().to_owned();
        described(&errors).into_iter().map(last).collect::<Vec<_>>()
    };
    let why = "instantiation failed: error parsing regexp: missing closing ): `(`";
    assert_eq!(refused(&schema("self.s.find('(') == ''", "'a'")), [format!("program {why}")]);
    assert_eq!(refused(&schema("true", "self.s.findAll('(', 1)[0]")), [format!("messageExpression {why}")]);
    let asked = |rule: &str| {
        let schema = schema(rule, "");
        assert_eq!(refused(&schema), Vec::<String>::new());
        CompiledRules::of(&schema).map(|rules| described(&rules.judge(&json!({"s": "a**"}), None)))
    };
    let said = |why: &str, rule: &str| {
        let why = format!("{why}error parsing regexp: invalid nested repetition operator: `**`");
        Some(vec![format!("<nil>: Invalid value: \"object\": {why} evaluating rule: {rule}")])
    };
    let rule = "duration(self.s) == duration('1s')";
    let why = "type conversion error from 'string' to 'google.protobuf.Duration'";
    assert_eq!(asked(rule), Some(vec![format!("<nil>: Invalid value: \"object\": {why} evaluating rule: {rule}")]));
    assert_eq!(asked("self.s.matches(self.s)"), said("", "self.s.matches(self.s)"));
    assert_eq!(asked("self.s.find(self.s) == ''"), said("Illegal regex: ", "self.s.find(self.s) == ''"));
}

/// Libraries of cel-go that kube-apiserver 1.36 does not load (`pkg/cel/environment/base.go`).
#[rstest::rstest]
#[case("math.greatest(1, 2) == 2", "math")]
#[case("base64.encode(b'a') == 'YQ=='", "base64")]
#[case("cel.bind(x, 1, x == 1)", "cel")]
fn functions_that_kubernetes_does_not_have_are_undeclared(#[case] rule: &str, #[case] name: &str) {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let mut errors = ErrorList::new();
    check_schema(&schema, "s", &mut errors);
    let described = described(&errors);
    assert!(described[0].contains(&format!("undeclared reference to '{name}' (in container '')")), "{described:?}");
}

#[test]
fn rules_of_items_need_a_list() {
    let items = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n > 0"}]});
    let schema = json!({"type": "object", "properties": {"l": {"type": "object", "items": items}}});
    let rules = CompiledRules::of(&schema).expect("a rule");
    // The words of `TestCustomResourceValidatorsWithSchemaConversion`.
    assert_eq!(
        described(&rules.judge(&json!({"l": [{"n": 8}]}), None)),
        [
            "l[0]: Invalid value: \"object\": rule compiler initialization error: failed to convert to declType for CEL validation rules"
        ]
    );
}

/// Fields without a schema count as changed, as in the validation by schemas.
#[rstest::rstest]
#[case::unchanged(json!({"n": 1}), json!({"n": 1}), 0)]
#[case::changed(json!({"n": 1}), json!({"n": 2}), 1)]
#[case::with_an_unknown_field(json!({"n": 1, "u": true}), json!({"n": 1, "u": true}), 1)]
#[case::reordered(json!({"n": 5, "l": [{"k": "a"}, {"k": "b"}]}), json!({"n": 5, "l": [{"k": "b"}, {"k": "a"}]}), 0)]
#[case::items_of_an_unchanged_list(json!({"n": 5, "p": [1, 2]}), json!({"n": 5, "p": [1, 2]}), 0)]
#[case::items_of_a_changed_list(json!({"n": 5, "p": [1, 2]}), json!({"n": 5, "p": [1, 3]}), 2)]
fn what_broke_a_rule_before_may_stay(#[case] old: Value, #[case] new: Value, #[case] errors: usize) {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let items = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"s": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": rule("self.n > 4"),
        "properties": {"n": {"type": "integer"},
            "p": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": rule("self > 9")}},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": items, "x-kubernetes-validations": rule("self.size() > 2")}}}}});
    let rules = CompiledRules::of(&schema).expect("a rule");
    let [old, new] = [old, new].map(|part| json!({"s": part, "x": 1}));
    let found = described(&rules.judge(&new, Some(&old)));
    assert_eq!(found.len(), errors, "{found:?}");
}

/// Judges a list of integers by one rule.
fn judge_list(rule: &str, list: Vec<Value>) -> Vec<String> {
    let schema = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]});
    CompiledRules::of(&schema).map_or_else(Vec::new, |rules| described(&rules.judge(&Value::Array(list), None)))
}

fn cancelled(rule: &str) -> String {
    format!(
        "<nil>: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
    )
}

#[rstest::rstest]
#[case::nested("self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))")]
#[case::errors_do_not_help("self.exists(a, self.exists(b, self.exists(c, self.exists(d, a / 0 == b || c / 0 == d))))")]
#[case::neither_do_defaults("self.all(a, self.all(b, self.all(c, (a / 0 == 1 || true) && self.all(d, d >= 0))))")]
#[case::lists_of_lists("self.map(a, self.map(b, self.map(c, [a, b, c]))).size() == 400")]
#[case::filters("self.filter(a, self.filter(b, self.filter(c, a == b).size() > 1).size() > 1).size() > 1")]
#[case::maps("self.transformMap(a, x, self.transformMap(b, y, self.transformMap(c, z, z))).size() == 400")]
#[case::ranges("lists.range(100000000).size() > 1")]
#[case::texts("self.all(a, 'x'.replace('', 'y'.replace('', self.map(n, string(n)).join('-'))).size() > a)")]
#[case::doubling(
    "self.all(a, [self].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)[0].all(x, x >= 0))"
)]
#[case::sets("self.all(a, sets.contains(self, self))")]
#[case::patterns("self.all(a, self.all(b, string(a * 1000 + b).matches(string(a) + '(\\\\w{99}){99}')))")]
fn an_evaluation_that_costs_too_much_is_ended(#[case] rule: &str) {
    assert_eq!(judge_list(rule, (0..400).map(|number| json!(number)).collect()), [cancelled(rule)]);
}

#[test]
fn comparisons_of_large_values_are_ended() {
    let rule = "self.l.all(a, self.l.all(b, self.l == self.l))";
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let rules = CompiledRules::of(&schema).expect("a rule");
    let inner: Vec<Value> = (0..2000).map(|number| json!(number)).collect();
    let errors = described(&rules.judge(&json!({"l": vec![Value::Array(inner); 300]}), None));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("'operation cancelled: actual cost limit exceeded'"), "{errors:?}");
}

/// Both sides of the limit, which is upstream's: 500,000 comparisons cost 2 for each variable and 1 for themselves.
#[rstest::rstest]
#[case(300, 0)]
#[case(725, 1)]
fn the_limit_of_one_rule(#[case] length: i64, #[case] errors: usize) {
    let rule = "self.all(x, self.all(y, x == x))";
    assert_eq!(judge_list(rule, (0..length).map(|number| json!(number)).collect()).len(), errors);
}

/// A text in a text costs a hundredth of the product of their lengths, and little time; the budget is ten million.
#[test]
fn the_rules_of_an_object_share_a_budget() {
    let rules = json!([{"rule": "self.contains(self)"}]);
    let schema = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": rules}});
    let rules = CompiledRules::of(&schema).expect("rules");
    let judge = |texts: usize| {
        let list = Value::Array(vec![json!("x".repeat(9_000)); texts]);
        described(&rules.judge(&list, None))
    };
    assert_eq!(judge(12), <[&str; 0]>::default());
    let errors = judge(13);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let end = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(errors[0].ends_with(end), "{errors:?}");
}

#[test]
fn a_message_that_costs_too_much() {
    let schema = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [
        {"rule": "false", "messageExpression": "string(self.all(a, self.all(b, self.all(c, true))))"}]});
    let rules = CompiledRules::of(&schema).expect("a rule");
    let list = Value::Array((0..400).map(|number| json!(number)).collect());
    assert_eq!(
        described(&rules.judge(&list, None)),
        [
            "<nil>: Invalid value: \"array\": no further validation rules will be run due to call cost exceeds limit for messageExpression: \"string(self.all(a, self.all(b, self.all(c, true))))\""
        ]
    );
}

const TOO_DEEP: &str = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250";

const TOO_LONG: &str = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded";

#[rstest::rstest]
#[case::comparisons("self.a == ", "self.a", 249, "")]
#[case::one_comparison_more("self.a == ", "self.a", 250, TOO_LONG)]
#[case::sums("1 + ", "1 > 0", 5_000, TOO_LONG)]
#[case::short_sums("1 + ", "1 > 0", 200, "")]
#[case::logic("true && ", "true", 5_000, "")]
#[case::choices("self.a ? false : ", "true", 2_000, TOO_DEEP)]
#[case::brackets("(", "", 5_000, TOO_DEEP)]
#[case::negations("!", "true", 5_000, "")]
#[case::lists("[", "", 5_000, TOO_DEEP)]
#[case::fields("", ".a", 5_000, TOO_LONG)]
#[case::calls("size(", "1", 5_000, TOO_DEEP)]
#[case::macros("[1].all(x, ", "true", 2_000, TOO_DEEP)]
#[case::operators("1 + ", "1", 10_001, TOO_LONG)]
#[case::characters(
    "true || ",
    "true",
    20_000,
    "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: 160004, limit 100000"
)]
fn long_expressions_are_read_or_refused(
    #[case] before: &str,
    #[case] after: &str,
    #[case] times: usize,
    #[case] why: &str,
) {
    let source = if before.is_empty() { format!("self{}", after.repeat(times)) } else { before.repeat(times) + after };
    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}},
        "x-kubernetes-validations": [{"rule": source}]});
    let mut errors = ErrorList::new();
    check_schema(&schema, "s", &mut errors);
    let found = described(&errors).join("\n");
    assert_eq!(found.is_empty(), why.is_empty(), "{found:.300}");
    assert!(found.contains(why), "{:?}", found.chars().rev().take(300).collect::<String>());
    if let Some(rules) = CompiledRules::of(&schema).filter(|_| why.is_empty()) {
        assert!(rules.judge(&json!({"a": true}), None).is_empty());
    }
}

/// The cases of `TestValidationExpressions` and the names that upstream's `cel/escaping.go` allows.
#[rstest::rstest]
#[case::null_is_absent(json!({"type": "integer", "nullable": true}), json!(null), "!has(self.v)")]
#[case::null_of_any_type(json!({"x-kubernetes-int-or-string": true, "nullable": true}), json!(null), "!has(self.v)")]
#[case::null_in_a_map(json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
    json!({"a": null}), "'a' in self.v && type(self.v['a']) == null_type")]
#[case::names_that_expressions_cannot_say(json!({"type": "array", "items": {"type": "object",
    "properties": {"k!": {"type": "string"}}}}), json!([{"k!": "a"}, {"k!": "b"}]), "self.v[0] != self.v[1]")]
#[case::reserved(json!({"type": "object", "properties": {"if": {"type": "string"}, "namespace": {"type": "string"}}}),
    json!({"if": "x"}), "self.v.if == self.v.__if__ && !has(self.v.namespace) && !self.v.?namespace.hasValue()")]
#[case::escaped(json!({"type": "object", "properties": {"-a": {"type": "string"}}}), json!({"-a": "x"}),
    "self.v.__dash__a == 'x'")]
#[case::duration(json!({"type": "string", "format": "duration"}), json!("1s"),
    "type(self.v) == google.protobuf.Duration")]
#[case::moment(json!({"type": "string", "format": "date-time"}), json!("2011-08-18T19:03:37.01+01:00"),
    "type(self.v) == google.protobuf.Timestamp && string(self.v) == '2011-08-18T19:03:37.01+01:00'")]
#[case::first_moment(json!({"type": "string", "format": "date"}), json!("0001-01-01"),
    "!optional.ofNonZeroValue(self.v).hasValue() && optional.ofNonZeroValue(timestamp(0)).hasValue()")]
#[case::address(json!({"type": "string"}), json!("10.0.0.0/8"),
    "type(cidr(self.v)) == net.CIDR && type(cidr(self.v).ip()) == net.IP")]
#[case::mapped(json!({"type": "string"}), json!("::ffff:1.2.3.4"),
    "!isIP(self.v) && !isCIDR(self.v + '/120') && !isIP('fe80::1%a') && !isCIDR('10.0.0.0/08') && isCIDR('10.0.0.0/8')")]
#[case::variable(json!({"type": "array", "items": {"type": "object", "properties": {"IP": {"type": "string"}}}}),
    json!([{"IP": "a"}]), "self.v.all(net, net.IP == 'a')")]
fn values(#[case] schema: Value, #[case] value: Value, #[case] rule: &str) {
    let schema = json!({"type": "object", "properties": {"v": schema}, "x-kubernetes-validations": [{"rule": rule}]});
    let mut errors = ErrorList::new();
    check_schema(&schema, "s", &mut errors);
    let refused = errors.iter().filter(|error| error.error_type != ErrorType::Forbidden).map(ToString::to_string);
    assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new());
    let rules = CompiledRules::of(&schema).expect("a rule");
    assert_eq!(described(&rules.judge(&json!({"v": value}), None)), Vec::<String>::new());
}

/// The errors of `TestValidationExpressions`, and `TypeInfo` of `apis/apiextensions/validation/cel_validation.go`.
#[rstest::rstest]
#[case(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), "has(self.v.a)", "undefined field 'a'")]
#[case(json!({"x-kubernetes-preserve-unknown-fields": true}), "has(self.v)", "undefined field 'v'")]
#[case(json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}), "has(self.v)",
    "undefined field 'v'")]
#[case(json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]}), "true",
    "s.properties[v].x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")]
#[case(json!({"type": "string", "format": "duration"}), "type(self.v) == duration",
    "undeclared reference to 'duration' (in container '')")]
#[case(json!({"type": "string"}), "self.true == 1", "<input>:1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER")]
#[case(json!({"type": "string"}), "timestamp(-62135596801) == timestamp(1)", "<input>:1:11: invalid timestamp argument")]
fn refused_expressions(#[case] schema: Value, #[case] rule: &str, #[case] expected: &str) {
    let schema = json!({"type": "object", "properties": {"v": schema}, "x-kubernetes-validations": [{"rule": rule}]});
    let mut errors = ErrorList::new();
    check_schema(&schema, "s", &mut errors);
    let errors = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(errors.contains(expected), "{errors}");
}

/// `TestRatcheting`: what is not refused because it is unchanged is warned of; errors and the type of an object count.
#[rstest::rstest]
#[case::broken(json!({"s": "x", "n": 1}), &[], &["s: Invalid value: \"x\": short"])]
#[case::changed(json!({"s": "y", "n": 1}), &["s: Invalid value: \"y\": short"], &[])]
#[case::failed(json!({"s": "xx", "l": []}), &["l: Invalid value: \"array\": index out of bounds: 0 evaluating rule: self[0] == 1"], &[])]
#[case::of_a_type(json!({"s": "xx", "kind": "K"}), &["kind: Invalid value: \"K\": failed rule: self == 'X'"], &[])]
fn what_is_ratcheted_is_warned_of(#[case] new: Value, #[case] refused: &[&str], #[case] warnings: &[&str]) {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"},
        "kind": {"type": "string", "x-kubernetes-validations": rule("self == 'X'")},
        "s": {"type": "string", "x-kubernetes-validations": [{"rule": "self.size() > 1", "message": "short"}]},
        "l": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rule("self[0] == 1")}}});
    let rules = CompiledRules::of(&schema).expect("rules");
    let old = json!({"s": "x", "kind": "K", "l": []});
    let found = rules.judge(&new, Some(&old));
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), refused);
    assert_eq!(found.warnings(), warnings);
}

/// Both sides of the limit.
#[test]
fn brackets_in_brackets() {
    for (times, why) in [(249, ""), (250, TOO_DEEP)] {
        let rule = format!("{}true{}", "(".repeat(times), ")".repeat(times));
        let mut errors = ErrorList::new();
        check_schema(&json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}), "s", &mut errors);
        let found = described(&errors).join("\n");
        assert_eq!((found.is_empty(), found.contains(why)), (why.is_empty(), true), "{times}: {found:.300}");
    }
}

/// The table `cases.yaml`.
#[test]
fn cases_of_upstream() {
    let text = crate::yaml::to_json(include_bytes!("cases.yaml")).expect("YAML").json;
    let mut differences = String::new();
    for case in serde_json::from_slice::<Vec<Value>>(&text).expect("cases") {
        let name = text_of(&case["name"]);
        let Some(rules) = CompiledRules::of(&case["schema"]) else { panic!("{name}: no rules") };
        let budget = case["budget"].as_u64().unwrap_or(cost::OBJECT_BUDGET);
        let texts = |field: &str| -> Vec<&str> { case[field].as_array().into_iter().flatten().map(text_of).collect() };
        let mut olds = vec![case.get("old")];
        if case["both"] == true {
            olds.push(None);
        }
        for old in olds {
            let (found, left) = rules.judge_within(&case["new"], old, budget);
            let errors: Vec<String> = found.iter().map(ToString::to_string).collect();
            let expected = texts("errors");
            let all_said = expected.iter().all(|part| errors.iter().any(|error| error.contains(part)));
            if errors.len() != expected.len() || !all_said {
                let _ = writeln!(differences, "{name}\n  expected {expected:#?}\n  got {errors:#?}");
            }
            let mut warnings = found.warnings().to_vec();
            warnings.sort();
            if warnings != texts("warnings") {
                let _ = writeln!(differences, "{name}: warnings {warnings:#?}");
            }
            let left = left.map_or(-1, |left| i64::try_from(left).unwrap_or(i64::MAX));
            if case["left"].as_i64().is_some_and(|expected| expected != left) {
                let _ = writeln!(differences, "{name}: left {left}");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
