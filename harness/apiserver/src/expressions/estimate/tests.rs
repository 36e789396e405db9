//! Estimated costs as upstream's tests have them, and definitions like those of public projects.

use super::super::check::check;
use super::super::parse::parse;
use super::*;
use crate::json::{Value, json};
use rstest::rstest;

fn items(schema: Value, most: Option<u64>) -> Value {
    let mut list = json!({"type": "array", "items": schema});
    if let Some(most) = most {
        list["maxItems"] = json!(most);
    }
    list
}

fn map(schema: Value) -> Value {
    json!({"type": "object", "additionalProperties": schema})
}

fn kind(kind: &str) -> Value {
    json!({"type": kind})
}

fn format(format: &str) -> Value {
    json!({"type": "string", "format": format})
}

fn any() -> Value {
    json!({"x-kubernetes-int-or-string": true})
}

fn text(most: u64) -> Value {
    json!({"type": "string", "maxLength": most})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn cost_of(schema: &Value, rule: &str) -> u64 {
    let program = parse(rule).expect("an expression").program;
    let own = CelType::of(schema, false).expect("a type");
    let checked = check(&program, &own, Some(&own));
    // Upstream's test has no validators of literals.
    let errors = checked.errors.into_iter().filter(|error| !error.contains(": expected type '"));
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new(), "{rule}");
    estimate(program.expression(), &checked.types, &SizedType::of(schema, false))
}

/// Expected costs are those of `TestCostEstimation` in
/// `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation_test.go`.
#[rstest]
#[case(items(kind("number"), None), "self.all(x, true)", 4_718_591)]
#[case(items(kind("number"), Some(10)), "self.all(x, true)", 32)]
#[case(items(kind("string"), None), "self.all(x, true)", 3_145_727)]
#[case(items(kind("boolean"), None), "self.all(x, true)", 1_887_437)]
#[case(items(items(kind("number"), None), None), "self.all(x, true)", 3_145_727)]
#[case(map(kind("number")), "self.all(x, true)", 1_348_169)]
#[case(map(kind("string")), "self.all(x, true)", 1_179_647)]
#[case(map(kind("boolean")), "self.all(x, true)", 943_718)]
#[case(json!({"x-kubernetes-int-or-string": true}), "type(self) == int && self == 123", 314_578)]
#[case(kind("string"), "self.contains('test')", 314_574)]
#[case(text(10), "self.contains('test')", 5)]
#[case(kind("string"), "self.startsWith('test')", 2)]
#[case(kind("string"), "size(self + \"hello\") > size(\"hello\")", 314_578)]
#[case(text(4), "size(self + \"hello\") > size(\"hello\")", 7)]
#[case(items(kind("number"), None), "self[1] == 0.0", 2)]
#[case(items(kind("string"), None), "self[1] == self[1]", 314_577)]
#[case(items(kind("number"), Some(10)), "self.all(x, self.all(y, true))", 352)]
#[case(items(kind("number"), Some(10)), "self.all(x, self.all(y, self.all(z, true)))", 3552)]
#[case(kind("string"), "self.matches(\"x\")", 314_574)]
#[case(text(50), "self.matches(\"x\")", 22)]
#[case(kind("string"), "\"\".matches(\"(((((((((())))))))))[0-9]\")", 7)]
#[case(kind("string"), "self.matches(\"\")", 1)]
#[case(text(0), "self == \"x\"", 1)]
#[case(items(kind("number"), None), "self.all(x, x == 0.0)", 6_291_454)]
#[case(items(any(), None), "self.all(x, true)", 4_718_591)]
#[case(items(any(), None), "self[0] == 5", 3)]
#[case(items(items(kind("number"), None), None), "self[0][0] == -1.0", 3)]
#[case(items(map(kind("number")), None), "self.all(x, x.y == 25.2)", 6_291_452)]
#[case(items(map(kind("number")), None), "self[0].x > 2.0", 4)]
#[case(items(format("duration"), None), "self.all(x, true)", 2_359_295)]
#[case(items(format("duration"), None), "self[0].getHours() == 2", 4)]
#[case(items(format("date"), None), "self.all(x, true)", 725_936)]
#[case(items(format("date-time"), None), "self.all(x, true)", 428_963)]
#[case(map(map(kind("number"))), "self.all(x, true)", 1_179_647)]
#[case(kind("string"), "self.find('[0-9]+') == ''", 629_147)]
#[case(text(10), "self.find('[0-9]+') == ''", 11)]
#[case(items(kind("string"), None), "self.join(' ') == 'aa bb'", 329_853_068_905)]
#[case(items(text(10), Some(10)), "self.join(' ') == 'aa bb'", 43)]
#[case(items(object(json!({"required": kind("string"), "optional": kind("string")})), None), "self.all(x, true)", 3_145_727)]
#[case(kind("string"), "self.endsWith('test')", 2)]
#[case(map(kind("string")), "self.all(x, x.contains(self[x]))", 2_752_507)]
#[case(map(kind("number")), "self[\"x\"] == 0.0", 2)]
#[case(format("byte"), "self == b\"x\"", 2)]
#[case(items(kind("number"), Some(3 * 1024 * 2048)), "self.all(x, x == 0.0)", 25_165_826)]
#[case(map(any()), "self.all(x, true)", 1_348_169)]
#[case(map(items(kind("number"), None)), "self.all(x, true)", 1_179_647)]
#[case(map(format("duration")), "self.all(x, true)", 1_048_577)]
#[case(map(format("date")), "self.all(x, true)", 524_288)]
#[case(map(format("date-time")), "self.all(x, true)", 349_526)]
#[case(items(kind("string"), None), "self.isSorted() == true", 329_854_432_052)]
#[case(items(text(10), Some(10)), "self.isSorted() == true", 52)]
#[case(object(json!({"str": text(4), "before": text(2), "after": text(4)})), "self.str.replace(self.before, self.after) == 'does not matter'", 12)]
#[case(object(json!({"str": kind("string"), "before": text(2), "after": text(4)})), "self.str.replace(self.before, self.after) == 'does not matter'", 629_154)]
#[case(object(json!({"str": kind("string"), "separator": kind("string")})), "self.str.split(self.separator) == []", 629_160)]
#[case(object(json!({"str": text(10), "separator": text(10)})), "self.str.split(self.separator) == []", 22)]
#[case(kind("string"), "self.lowerAscii() == 'lower!'", 314_575)]
#[case(text(10), "self.lowerAscii() == 'lower!'", 6)]
#[case(map(kind("integer")), "oldSelf.size() == self.size()", 5)]
#[case(map(format("date-time")), "self[\"a\"] == self[\"b\"]", 8)]
#[case(map(format("duration")), "self[\"c\"] == self[\"d\"]", 8)]
#[case(json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]}), "self.contains('A')", 2)]
#[case(json!({"type": "string", "enum": ["A", "B", "C", "LongValue"], "maxLength": 1000}), "self.contains('A')", 401)]
#[case(any(), "isQuantity(self)", 314_574)]
#[case(json!({"x-kubernetes-int-or-string": true, "maxLength": 20}), "isQuantity(self)", 9)]
fn costs(#[case] schema: Value, #[case] rule: &str, #[case] expected: u64) {
    assert_eq!(cost_of(&schema, rule), expected);
}

/// Expected costs are the `Max` of the tests in `staging/src/k8s.io/apiserver/pkg/cel/library/cost_test.go`.
#[rstest]
#[case("[1, 2, 3, 4, 5].sum()", 15)]
#[case("[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()", 20)]
#[case("[false, true, false, true, false].max()", 15)]
#[case("[1, 2, 3, 4, 5].indexOf(3)", 15)]
#[case("'01234567890123456789012345678901234567890123456789'.indexOf('123')", 5)]
#[case("url('https:://kubernetes.io/').getHost()", 4)]
#[case("url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", 9)]
#[case("url('https:://kubernetes.io/') == url('http://x.b')", 5)]
#[case("ip('192.168.0.1')", 2)]
#[case("ip('2001:db8:3333:4444:5555:6666:7777:8888').isLoopback()", 5)]
#[case("ip('2001:db8:3333:4444:5555:6666:7777:8888') == ip('192.168.0.1')", 7)]
#[case("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8)]
#[case("cidr('192.168.0.0/16').masked()", 3)]
#[case("cidr('192.168.0.0/16').ip()", 3)]
#[case("cidr('192.168.0.0/16') == cidr('2001:db8::/32')", 5)]
#[case("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 11)]
#[case("cidr('192.168.0.0/16').containsCIDR('192.168.0.0/16')", 11)]
#[case("cidr('192.168.0.0/16').containsIP(ip('192.169.169.250'))", 8)]
#[case("cidr('2001:db8::/32').containsIP('2001:db8:3333:4444:5555:6666:7777:8888')", 10)]
#[case("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 9)]
#[case("strings.quote('ABCDEFGHIJ abcdefghij')", 3)]
#[case("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 11)]
#[case("'abc 123 def 123'.replace('', 'x')", 3)]
#[case("'abc 123 def 123'.split(' ', 1)", 3)]
#[case("'abc 123 def 123'.substring(5)", 2)]
#[case("'  abc 123 def 123  '.trim()", 2)]
#[case("'abc 123 def 123'.findAll('123', 1)", 2)]
#[case("jsonpatch.escapeKey('abc/def~ abc/def~')", 2)]
#[case("quantity(\"200M\") == quantity(\"0.2G\") && quantity(\"0.2G\") == quantity(\"200M\")", 6)]
#[case("quantity(\"50k\").add(20).sub(quantity(\"100k\")).sub(-50000).asInteger() > 0", 7)]
#[case("format.named(\"dns1123subdomain\")", 1)]
#[case("format.named(\"dns1123Label\").value().validate(\"my-name\")", 34)]
#[case("format.named(\"dns1123Label\").value() == format.named(\"dns1123Label\").value()", 11)]
#[case("semver(\"1234.56789012345.67890123456789\")", 4)]
#[case("semver(\"1.0.0\").isLessThan(semver(\"1.1.0\"))", 3)]
#[case("sets.contains([1, 2, 3, 4], [2, 3])", 29)]
#[case("sets.contains([[1], [2, 3]], [[2, 3.0]])", 53)]
#[case("sets.equivalent([1, 2, 3], [3u, 2.0, 1])", 39)]
#[case("!sets.equivalent([1, 2], [2u, 2, 2.0])", 34)]
#[case("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", 65)]
#[case("{'a': 1, 'b': 2}.all(k, v, v > 0)", 41)]
#[case("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 43)]
#[case("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 40)]
#[case("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71)]
#[case("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 75)]
#[case("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131)]
#[case("{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})", 135)]
#[case("[1, 2].all(i, v, v > 0)", 21)]
#[case("[1, 2].existsOne(i, v, v > 0)", 20)]
#[case("[1, 2].transformList(i, v, v + 1)", 49)]
#[case("[1, 2].transformList(i, v, v < 5, v + 1)", 53)]
fn costs_of_literals(#[case] expression: &str, #[case] expected: u64) {
    assert_eq!(cost_of(&object(json!({})), expression), expected);
}

/// Costs that follow from the source of the estimator: keys of maps have the size of `StringType`, and values that are
/// no part of the object have the size of the root.
#[rstest]
// 1 for `self` and 1 for the result; 8 times the condition (2) and the step: 1, 1 for the key, 1 * ceil(8 / 4).
#[case::keys_of_a_map(json!({"type": "object", "maxProperties": 8, "additionalProperties": text(4096)}), "self.all(key, key.matches('^[a-z]+$'))", 50)]
#[case::two_variables(json!({"type": "object", "maxProperties": 8, "additionalProperties": text(10)}), "self.all(key, value, key.matches('^[a-z]+$'))", 50)]
#[case::keys_in_a_list_of_maps(items(json!({"type": "object", "maxProperties": 2, "additionalProperties": text(10)}), Some(2)), "self.all(m, m.all(k, k.size() > 0))", 36)]
#[case::parts_of_a_split_text(object(json!({"text": text(10)})), "self.text.split(',').all(part, part.matches('^[a-z]+$'))", 251)]
// `T.optMap(v, E)` is `T.hasValue() ? optional.of(bind(v, T.value(), E)) : optional.none()`: 2 and 2 for `self.?a`,
// which is there twice, 1 for each of three calls, 10 for the binding, 1 for `v`, 1 for `orValue`, 1 for `>`.
#[case::optional_values(object(json!({"a": kind("integer")})), "self.?a.optMap(v, v).orValue(0) > 3", 20)]
fn costs_of_variables(#[case] schema: Value, #[case] rule: &str, #[case] expected: u64) {
    assert_eq!(cost_of(&schema, rule), expected);
}

#[rstest]
#[case(10_000_000, None)]
#[case(12_000_000, Some("1.200000x"))]
#[case(15_000_000, Some("1.5x"))]
#[case(1_000_000_000, Some("100.0x"))]
#[case(u64::MAX, Some("more than 100x"))]
fn errors_name_the_factor(#[case] cost: u64, #[case] factor: Option<&str>) {
    let message = exceeded("estimated rule cost", cost, EXPRESSION_LIMIT);
    let start = factor.map(|factor| format!("estimated rule cost exceeds budget by factor of {factor} (try"));
    assert_eq!(message.is_some(), start.is_some());
    assert!(message.unwrap_or_default().starts_with(&start.unwrap_or_default()));
}
