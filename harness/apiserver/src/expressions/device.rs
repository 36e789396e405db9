//! Selectors of devices. See `staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go`. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::check_in;
use super::compile_error::NO_THREAD;
use super::parse::parse;
use super::types::CelType;

/// Returns the type of the variable `device`.
fn device_type() -> CelType {
    let map = |values: CelType| CelType::Map(Box::new(CelType::Text), Box::new(values));
    let fields = [
        ("driver", CelType::Text),
        ("allowMultipleAllocations", CelType::Bool),
        ("attributes", map(map(CelType::Dyn))),
        ("capacity", map(map(CelType::Other("kubernetes.Quantity")))),
    ];
    CelType::Object(Arc::new(BTreeMap::from(fields.map(|(name, ty)| (name.to_owned(), ty)))))
}

/// Returns the reason why a text is no selector of devices. Costs are not estimated.
pub(crate) fn device_selector_error(source: &str) -> Option<String> {
    let failed = |why: String| Some(format!("compilation failed: {why}"));
    let expression = match parse(source) {
        Ok(expression) => expression,
        Err(error) => return failed(error.to_string()),
    };
    // Upstream has `cel.bind` here, and nowhere else. Its types are not checked.
    if source.contains("cel.bind(") {
        return None;
    }
    let scope = vec![("device".to_owned(), device_type())];
    let Some(checked) = expression.walk(|program| check_in(program, scope)) else {
        return failed(NO_THREAD.to_owned());
    };
    let checked = match checked.valid() {
        Ok(checked) => checked,
        Err(error) => return Some(error.to_string()),
    };
    let fits = matches!(checked.ty, CelType::Bool | CelType::Dyn);
    (!fits).then(|| format!("must evaluate to bool or the unknown type, not {}", checked.ty.declared()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The answers of kube-apiserver 1.36.2 to selectors that are none.
    #[rstest]
    #[case::number(
        "1.2.3.4",
        "ERROR: <input>:1:4: Syntax error: mismatched input '.3' expecting <EOF>\n | 1.2.3.4\n | ...^"
    )]
    #[case::words("a b c", "ERROR: <input>:1:3: Syntax error: mismatched input 'b' expecting <EOF>\n | a b c\n | ..^")]
    #[case::tab("\t1 2", "ERROR: <input>:1:4: Syntax error: extraneous input '2' expecting <EOF>\n |  1 2\n | ...^")]
    #[case::open(
        "((((1))",
        "ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting ')'\n | ((((1))\n | .......^"
    )]
    #[case::closed(
        "((((1))))))",
        "ERROR: <input>:1:10: Syntax error: mismatched input ')' expecting <EOF>\n | ((((1))))))\n | .........^"
    )]
    #[case::condition(
        "1 ? 2",
        "ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>' expecting ':'\n | 1 ? 2\n | .....^"
    )]
    #[case::wide(
        "'\u{e9}' + 1",
        "ERROR: <input>:1:5: found no matching overload for '_+_' applied to '(string, int)'\n | '\u{e9}' + 1\n | .\u{ff0e}..^"
    )]
    #[case::rune(r"'\U00110000'", "ERROR: <input>:1:1: invalid unicode code point\n | '\\U00110000'\n | ^")]
    #[case::bytes(r"b'\u1234'", "ERROR: <input>:1:1: unable to unescape string\n | b'\\u1234'\n | ^")]
    #[case::step(
        "[1].all(x, x)",
        "ERROR: <input>:1:12: expected type 'bool' but found 'int'\n | [1].all(x, x)\n | ...........^"
    )]
    #[case::types(
        "int == 1",
        "ERROR: <input>:1:5: found no matching overload for '_==_' applied to '(type(int), int)'\n | int == 1\n | ....^"
    )]
    #[case::receiver(
        "quantity('1').sign() == 'a'",
        "ERROR: <input>:1:19: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'\n | quantity('1').sign() == 'a'\n | ..................^"
    )]
    fn selectors_that_do_not_compile(#[case] source: &str, #[case] expected: &str) {
        assert_eq!(device_selector_error(source), Some(format!("compilation failed: {expected}")));
    }

    #[rstest]
    #[case("null", "null_type")]
    #[case("int", "type(int)")]
    #[case("duration('1s')", "google.protobuf.Duration")]
    fn selectors_of_other_types(#[case] source: &str, #[case] ty: &str) {
        let why = format!("must evaluate to bool or the unknown type, not {ty}");
        assert_eq!(device_selector_error(source), Some(why));
    }

    #[test]
    fn an_empty_selector_has_no_line_to_show() {
        let error = device_selector_error("").expect("an error");
        assert!(
            error.starts_with(
                "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', "
            ),
            "{error}"
        );
        assert!(error.ends_with("IDENTIFIER}"), "{error}");
    }
}
