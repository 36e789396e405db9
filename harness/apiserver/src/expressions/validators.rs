//! Checks of literals in expressions whose types are right. PURE.
//!
//! Follows the validators of `github.com/google/cel-go`: `cel/validator.go` and `stringFormatValidator` of
//! `ext/formatting.go`, with their messages. Kubernetes has them in all its environments, for expressions that are
//! already stored, too.

use std::collections::BTreeMap;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};

use super::library;
use super::string_format::{clause, wanted};
use super::types::CelType;
use crate::go_duration::go_duration;
use crate::go_regex::{GoRegexError, go_regex_error};

/// The mistake in an expression.
#[derive(Debug, Default)]
pub(super) struct Validated {
    /// Errors, each with the identifier of the part of the expression that it is about.
    pub(super) errors: Vec<(u64, String)>,
    /// The error of the first regular expression that is not valid.
    pub(super) pattern: Option<GoRegexError>,
}

/// Returns what is wrong with an expression whose parts have these types.
pub(super) fn validate(expression: &IdedExpr, types: &BTreeMap<u64, CelType>) -> Validated {
    let mut validator = LiteralValidator { types, found: Validated::default() };
    validator.visit(expression, false);
    validator.found
}

struct LiteralValidator<'a> {
    types: &'a BTreeMap<u64, CelType>,
    found: Validated,
}

impl LiteralValidator<'_> {
    fn type_of(&self, expression: &IdedExpr) -> CelType {
        self.types.get(&expression.id).cloned().unwrap_or(CelType::Dyn)
    }

    /// Visits an expression; literals in a call of `format` may be mixed.
    fn visit(&mut self, expression: &IdedExpr, mixed: bool) {
        match &expression.expr {
            Expr::Call(call) => {
                self.literal_argument(call);
                self.pattern(call);
                self.format(expression.id, call);
                let mixed = mixed || call.func_name == "format";
                call.target.as_deref().into_iter().chain(&call.args).for_each(|part| self.visit(part, mixed));
            }
            Expr::List(list) => {
                if !mixed {
                    self.elements(list);
                }
                list.elements.iter().for_each(|element| self.visit(element, mixed));
            }
            Expr::Map(map) => {
                if !mixed {
                    self.entries(map);
                }
                map.entries.iter().for_each(|entry| self.entry(&entry.expr, mixed));
            }
            Expr::Struct(literal) => literal.entries.iter().for_each(|entry| self.entry(&entry.expr, mixed)),
            Expr::Select(select) => self.visit(&select.operand, mixed),
            Expr::Comprehension(parts) => {
                let all = [&parts.iter_range, &parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result];
                for part in all {
                    self.visit(part, mixed);
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entry(&mut self, entry: &EntryExpr, mixed: bool) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, mixed);
                self.visit(&entry.value, mixed);
            }
            EntryExpr::StructField(field) => self.visit(&field.value, mixed),
        }
    }

    /// Checks that the elements of a list have one type.
    fn elements(&mut self, list: &ListExpr) {
        let mut first: Option<CelType> = None;
        for (index, element) in list.elements.iter().enumerate() {
            let ty = self.type_of(element).content(list.optional_indices.contains(&index));
            match &first {
                None => first = Some(ty),
                Some(first) if first.is_equivalent(&ty) => {}
                Some(first) => return self.found.errors.push((element.id, mismatch(first, &ty))),
            }
        }
    }

    /// Checks that the keys of a map have one type, and the values.
    fn entries(&mut self, map: &MapExpr) {
        let mut first: Option<(CelType, CelType)> = None;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.type_of(&entry.key);
            let value = self.type_of(&entry.value).content(entry.optional);
            let Some((first_key, first_value)) = &first else {
                first = Some((key, value));
                continue;
            };
            if !first_key.is_equivalent(&key) {
                self.found.errors.push((entry.key.id, mismatch(first_key, &key)));
            }
            if !first_value.is_equivalent(&value) {
                self.found.errors.push((entry.value.id, mismatch(first_value, &value)));
            }
        }
    }

    /// Checks a literal that is the first argument of `duration`, `timestamp` or `matches`.
    fn literal_argument(&mut self, call: &CallExpr) {
        let Some(IdedExpr { id, expr: Expr::Literal(literal) }) = call.args.first() else { return };
        let valid = match (call.func_name.as_str(), literal) {
            ("duration", LiteralValue::String(text)) => go_duration(text.inner()).is_some(),
            ("timestamp", literal) => {
                let arguments = vec![literal.to_val()];
                let function = library::ENV.find_overload("timestamp", &arguments);
                function.is_some_and(|function| function(arguments).is_ok())
            }
            ("matches", LiteralValue::String(text)) => go_regex_error(text.inner()).is_none(),
            _ => true,
        };
        if !valid {
            self.found.errors.push((*id, format!("invalid {} argument", call.func_name)));
        }
    }

    /// Checks a literal regular expression, which cel-go compiles before the evaluation: `OptimizeRegex` in
    /// `staging/src/k8s.io/apiserver/pkg/cel/library/regex.go`.
    fn pattern(&mut self, call: &CallExpr) {
        let pattern = call.target.as_deref().into_iter().chain(&call.args).nth(1).map(|pattern| &pattern.expr);
        if let ("find" | "findAll" | "matches", Some(Expr::Literal(LiteralValue::String(text)))) =
            (call.func_name.as_str(), pattern)
        {
            self.found.pattern = self.found.pattern.take().or_else(|| go_regex_error(text.inner()));
        }
    }

    /// Checks a literal text that is formatted with a literal list.
    fn format(&mut self, id: u64, call: &CallExpr) {
        let ("format", Some(target), [IdedExpr { expr: Expr::List(list), .. }]) =
            (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice())
        else {
            return;
        };
        let Expr::Literal(LiteralValue::String(text)) = &target.expr else { return };
        match self.format_arguments(text.inner(), &list.elements) {
            Err(FormatError { at, why }) => self.found.errors.push((at.unwrap_or(id), why)),
            Ok(expected) if list.elements.len() > expected => {
                let got = list.elements.len();
                let why = format!("too many arguments supplied to string.format (expected {expected}, got {got})");
                self.found.errors.push((id, why));
            }
            Ok(_) => {}
        }
    }

    /// Returns the number of arguments that a format asks for.
    fn format_arguments(&self, format: &str, arguments: &[IdedExpr]) -> Result<usize, FormatError> {
        let mut asked = 0;
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                rest = after;
                continue;
            }
            if rest.is_empty() {
                return Err(FormatError::new("unexpected end of string"));
            }
            let argument =
                arguments.get(asked).ok_or_else(|| FormatError::new(format!("index {asked} out of range")))?;
            let (clause, after) =
                clause(rest).map_err(|why| FormatError::new(format!("could not parse formatting clause: {why}")))?;
            if let Some((at, why)) = self.misfit(clause.letter, argument) {
                return Err(FormatError { at: Some(at), why: format!("error during formatting: {why}") });
            }
            rest = after;
            asked += 1;
        }
        Ok(asked)
    }

    /// Returns what is wrong with an argument of a clause, and the part that is wrong.
    fn misfit(&self, letter: char, argument: &IdedExpr) -> Option<(u64, String)> {
        let types = match letter {
            's' => &[][..],
            'f' | 'e' => &DOUBLES[..],
            'b' => &BINARIES[..],
            'x' | 'X' => &HEXADECIMALS[..],
            _ => &INTEGERS[..],
        };
        let ty = self.type_of(argument).substituted();
        let bad = if letter == 's' {
            self.no_text(argument)
        } else {
            Some(argument).filter(|_| ty != CelType::Dyn && !types.contains(&ty))
        };
        bad.map(|bad| (bad.id, format!("{}, was given {}", wanted(letter), type_name(&self.type_of(bad)))))
    }

    /// Returns the first part of an argument that has no form as a text.
    fn no_text<'e>(&self, argument: &'e IdedExpr) -> Option<&'e IdedExpr> {
        let no_form = matches!(self.type_of(argument), CelType::Object(_) | CelType::Optional(_) | CelType::Other(_));
        if no_form {
            return Some(argument);
        }
        match &argument.expr {
            Expr::List(list) => list.elements.iter().find_map(|element| self.no_text(element)),
            Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self.no_text(&entry.key).or_else(|| self.no_text(&entry.value)),
                EntryExpr::StructField(_) => None,
            }),
            _ => None,
        }
    }
}

static INTEGERS: [CelType; 2] = [CelType::Int, CelType::Uint];
/// Texts may be `NaN` and `Infinity`.
static DOUBLES: [CelType; 2] = [CelType::Double, CelType::Text];
static BINARIES: [CelType; 3] = [CelType::Int, CelType::Uint, CelType::Bool];
static HEXADECIMALS: [CelType; 4] = [CelType::Int, CelType::Uint, CelType::Text, CelType::Bytes];

/// The reason why a format does not fit its arguments, and the argument.
#[derive(Debug)]
struct FormatError {
    at: Option<u64>,
    why: String,
}

impl FormatError {
    fn new(why: impl Into<String>) -> Self {
        Self { at: None, why: why.into() }
    }
}

fn mismatch(expected: &CelType, found: &CelType) -> String {
    format!("expected type '{expected}' but found '{found}'")
}

/// Returns the name of a type without its parameters.
fn type_name(ty: &CelType) -> String {
    match ty {
        CelType::List(_) => "list".to_owned(),
        CelType::Map(..) => "map".to_owned(),
        CelType::Optional(_) => "optional_type".to_owned(),
        CelType::Null => "null_type".to_owned(),
        CelType::Timestamp => "google.protobuf.Timestamp".to_owned(),
        CelType::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;
    use super::super::parse::parse;
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    /// Returns the messages of an expression's errors, without their places.
    fn errors(source: &str) -> Vec<String> {
        let program = parse(source).expect("an expression").program;
        let own = CelType::of(
            &json!({"type": "object", "properties": {
                "i": {"type": "integer"}, "s": {"type": "string"}, "any": {"x-kubernetes-int-or-string": true},
                "o": {"type": "object", "properties": {"x": {"type": "string"}}}}}),
            false,
        )
        .expect("a type");
        let found = check(&program, &own, Some(&own)).errors;
        let message = |error: String| {
            let (_, message) = error.split_once("<input>:1:").expect("a place");
            message.lines().next().unwrap_or_default().to_owned()
        };
        found.into_iter().map(message).collect()
    }

    #[rstest]
    #[case("[1, 2.0].size() == 2", &["5: expected type 'int' but found 'double'"])]
    #[case("self.i in [1, '2', 2.0]", &["15: expected type 'int' but found 'string'"])]
    #[case("{'a': 1, 'b': 'x'}.size() == 2", &["15: expected type 'int' but found 'string'"])]
    #[case("{'a': 1, 2: 'x'}.size() == 2", &[
        "10: expected type 'string' but found 'int'", "13: expected type 'int' but found 'string'"])]
    #[case::any_type("[self.i, self.any].size() == 2", &["14: expected type 'int' but found 'dyn'"])]
    #[case::nested("[[1], ['a']].size() == 2", &["7: expected type 'list(int)' but found 'list(string)'"])]
    #[case::null("[1, null].size() == 2", &["5: expected type 'int' but found 'null'"])]
    #[case::made_any("[dyn(1), dyn('a')].size() == 2", &[])]
    #[case::empty("[[], [1]].size() == 2 && [{}, {'a': 1}].size() == 2", &[])]
    #[case::optional("[1, ?optional.of(2)].size() == 2 && {?'a': optional.of(1), 'b': 2}.size() == 2", &[])]
    #[case::wrong_optional("[1, ?optional.of('a')].size() == 2", &["17: expected type 'int' but found 'string'"])]
    #[case::formatted("'%s %d'.format(['a', 1]) == '' && '%s'.format([[1, 'a']]) == ''", &[])]
    #[case::after_another_error("[1, 2.0].size() == 'a'", &[
        "17: found no matching overload for '_==_' applied to '(int, string)'"])]
    fn literals_have_one_type(#[case] source: &str, #[case] expected: &[&str]) {
        assert_eq!(errors(source), expected);
    }

    #[rstest]
    #[case("duration('1d') == duration('24h')", &["10: invalid duration argument"])]
    #[case("duration('1h30m') == duration(self.s)", &[])]
    #[case("timestamp('2020-01-01') == timestamp(0)", &["11: invalid timestamp argument"])]
    #[case("timestamp('2020-01-01T00:00:00Z') == timestamp(self.s)", &[])]
    #[case("self.s.matches('(')", &["16: invalid matches argument"])]
    #[case::first_argument("matches('(', 'a')", &["9: invalid matches argument"])]
    fn literal_arguments(#[case] source: &str, #[case] expected: &[&str]) {
        assert_eq!(errors(source), expected);
    }

    /// Positions are those of the argument, or of the call.
    #[rstest]
    #[case("'%d'.format(['a'])", &["14: error during formatting: decimal clause can only be used on integers, was given string"])]
    #[case("'%f'.format([1])", &["14: error during formatting: fixed-point clause can only be used on doubles, was given int"])]
    #[case("'%.1e'.format([[1]])", &["16: error during formatting: scientific clause can only be used on doubles, was given list"])]
    #[case("'%b'.format([1.5])", &["14: error during formatting: only integers and bools can be formatted as binary, was given double"])]
    #[case("'%x'.format([duration('1s')])", &["22: error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given google.protobuf.Duration"])]
    #[case("'%o'.format([{1: 2}])", &["14: error during formatting: octal clause can only be used on integers, was given map"])]
    #[case("'%s'.format([[self.o]])", &["19: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given object"])]
    #[case("'%c'.format([1])", &["12: could not parse formatting clause: unrecognized formatting clause \"c\""])]
    #[case("'%s %s'.format(['a'])", &["15: index 1 out of range"])]
    #[case("'%s'.format(['a', 'b'])", &["12: too many arguments supplied to string.format (expected 1, got 2)"])]
    #[case("'%'.format([1])", &["11: unexpected end of string"])]
    #[case("'%.2'.format([1])", &["13: could not parse formatting clause: error while parsing precision: could not find end of precision specifier"])]
    #[case("'%.f'.format([1.5])", &["13: could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax"])]
    #[case("'%d%% %s %s %.2f %X'.format([dyn('a'), null, self.any, 1.5, 255])", &[])]
    #[case::unknown_format("self.s.format([1])", &[])]
    fn formats(#[case] source: &str, #[case] expected: &[&str]) {
        let source = format!("{source} == ''");
        assert_eq!(errors(&source), expected);
    }
}
