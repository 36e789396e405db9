//! Label and field selectors: parsing with upstream's error messages, and matching. Pure.
//!
//! They agree with `staging/src/k8s.io/apimachinery/pkg/labels/selector.go` and
//! `staging/src/k8s.io/apimachinery/pkg/fields/selector.go`.

use std::borrow::Cow;

use super::field_errors::{self, Path};
use super::metadata;
use super::registry::{Resource, names};
use super::status::go_quote;
use super::store::StoredObject;
use crate::json::Value;

/// Reasons why a text is not a selector, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    /// A token that does not belong there.
    #[error("found '{found}', expected: {expected}")]
    Token { found: String, expected: &'static str },
    /// An operator for sets without values.
    #[error("found '{0}' expected: '('")]
    NoValues(String),
    /// A key that is no qualified name.
    #[error("<nil>: Invalid value: {}: {}", go_quote(.key), .why.join("; "))]
    Key { key: String, why: Vec<String> },
    /// Values that are not allowed.
    #[error("{0}")]
    Values(String),
    /// A requirement with one of the mistakes above.
    #[error("unable to parse requirement: {0}")]
    Requirement(Box<Self>),
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term { selector: String, term: String },
    /// A backslash before another character than those that need one.
    #[error("invalid field selector: invalid escape sequence: \\{0}")]
    Escape(String),
    /// A character that needs a backslash.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// A field by which jobs cannot be selected.
    #[error("field label {} not supported for Job", go_quote(.0))]
    JobField(String),
    /// A field by which slices of resources cannot be selected: `pkg/apis/resource/v1/conversion.go`.
    #[error("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {0}")]
    SliceField(String),
    /// A field by which objects of a kind with field labels of its own cannot be selected.
    #[error("field label not supported: {0}")]
    Field(String),
    /// A field by which objects of other kinds cannot be selected.
    #[error("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", go_quote(.0))]
    UnknownField(String),
}

/// Returns the error about a token.
fn unexpected(found: &str, expected: &'static str) -> SelectorError {
    SelectorError::Token { found: found.to_owned(), expected }
}

/// The operator of a label requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `key in (a,b)`, `key=a`, `key==a`
    In,
    /// `key notin (a,b)`, `key!=a`
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// A requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison.
    pub operator: Operator,
    /// Values, sorted, without duplicates.
    pub values: Vec<String>,
}

/// A label selector: the conjunction of its requirements; the empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |value, limit| value > limit),
            Operator::LessThan => self.compare(value, |value, limit| value < limit),
        }
    }

    fn compare(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        match (value.and_then(parse_int), self.values.first().and_then(|limit| parse_int(limit))) {
            (Some(value), Some(limit)) => holds(value, limit),
            _ => false,
        }
    }
}

/// Parses an integer like Go's `ParseInt` in base 10.
fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl LabelSelector {
    /// Parses a selector such as `app in (a,b),!canary,tier!=web`.
    ///
    /// # Errors
    ///
    /// Upstream's message if the text is not a selector.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser::new(text).parse()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns true if the labels, looked up by key, match.
    pub(crate) fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(lookup(&requirement.key)))
    }

    /// Returns true if the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorToken {
    End,
    Error,
    ClosedPar,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    GreaterThan,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenPar,
    Identifier,
}

fn keyword(text: &str) -> Option<SelectorToken> {
    Some(match text {
        ")" => SelectorToken::ClosedPar,
        "," => SelectorToken::Comma,
        "!" => SelectorToken::Not,
        "==" => SelectorToken::DoubleEquals,
        "=" => SelectorToken::Equals,
        ">" => SelectorToken::GreaterThan,
        "in" => SelectorToken::In,
        "<" => SelectorToken::LessThan,
        "!=" => SelectorToken::NotEquals,
        "notin" => SelectorToken::NotIn,
        "(" => SelectorToken::OpenPar,
        _ => return None,
    })
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Splits a selector into tokens with their texts. A NUL ends the text, as it does upstream.
fn tokens(text: &str) -> Vec<(SelectorToken, String)> {
    let text = text.split('\0').next().unwrap_or_default();
    let mut rest = text.trim_start_matches(is_space);
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if is_special(first) { special(rest) } else { word(rest) };
        let literal = if token == SelectorToken::Error {
            format!("error expected: keyword found '{}'", &rest[..length])
        } else {
            rest[..length].to_owned()
        };
        found.push((token, literal));
        rest = rest[length..].trim_start_matches(is_space);
    }
    found.push((SelectorToken::End, String::new()));
    found
}

fn word(rest: &str) -> (SelectorToken, usize) {
    let length = rest.find(|c| is_special(c) || is_space(c)).unwrap_or(rest.len());
    (keyword(&rest[..length]).unwrap_or(SelectorToken::Identifier), length)
}

/// Returns the longest operator at the start of `rest`.
fn special(rest: &str) -> (SelectorToken, usize) {
    let run = rest.find(|c| !is_special(c)).unwrap_or(rest.len());
    let mut best = None;
    for length in 1..=run {
        match keyword(&rest[..length]) {
            Some(token) => best = Some((token, length)),
            None if best.is_some() => break,
            None => {}
        }
    }
    best.unwrap_or((SelectorToken::Error, run))
}

struct Parser {
    tokens: Vec<(SelectorToken, String)>,
    position: usize,
}

impl Parser {
    fn new(text: &str) -> Self {
        Self { tokens: tokens(text), position: 0 }
    }

    /// Returns the next token. In the position of a key or value, `in` and `notin` are identifiers.
    fn peek(&self) -> (SelectorToken, &str) {
        let (token, literal) = self.raw();
        (
            if matches!(token, SelectorToken::In | SelectorToken::NotIn) { SelectorToken::Identifier } else { token },
            literal,
        )
    }

    fn raw(&self) -> (SelectorToken, &str) {
        self.tokens.get(self.position).map_or((SelectorToken::End, ""), |(token, literal)| (*token, literal))
    }

    fn take(&mut self) -> (SelectorToken, String) {
        let (token, literal) = self.peek();
        let taken = (token, literal.to_owned());
        self.position += 1;
        taken
    }

    fn take_operator(&mut self) -> (SelectorToken, String) {
        let (token, literal) = self.raw();
        let taken = (token, literal.to_owned());
        self.position += 1;
        taken
    }

    fn parse(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            let (token, literal) = self.peek();
            match token {
                SelectorToken::Identifier | SelectorToken::Not => {
                    let requirement =
                        self.requirement().map_err(|error| SelectorError::Requirement(Box::new(error)))?;
                    requirements.push(requirement);
                    let (token, literal) = self.take();
                    match token {
                        SelectorToken::End => return Ok(requirements),
                        SelectorToken::Comma => {
                            let (token, literal) = self.peek();
                            if !matches!(token, SelectorToken::Identifier | SelectorToken::Not) {
                                return Err(unexpected(literal, "identifier after ','"));
                            }
                        }
                        _ => return Err(unexpected(&literal, "',' or 'end of string'")),
                    }
                }
                SelectorToken::End => return Ok(requirements),
                _ => return Err(unexpected(literal, "!, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (mut token, mut literal) = self.take();
        let negated = token == SelectorToken::Not;
        if negated {
            (token, literal) = self.take();
        }
        if token != SelectorToken::Identifier {
            return Err(unexpected(&literal, "identifier"));
        }
        let key = literal;
        let why = names::qualified_name(&key);
        if !why.is_empty() {
            return Err(SelectorError::Key { key, why });
        }
        if negated {
            return requirement(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma) {
            return requirement(key, Operator::Exists, Vec::new());
        }
        let (token, literal) = self.take_operator();
        match token {
            SelectorToken::In | SelectorToken::NotIn => {
                let operator = if token == SelectorToken::In { Operator::In } else { Operator::NotIn };
                requirement(key, operator, self.values()?)
            }
            SelectorToken::Equals | SelectorToken::DoubleEquals => requirement(key, Operator::In, self.exact_value()?),
            SelectorToken::NotEquals => requirement(key, Operator::NotIn, self.exact_value()?),
            SelectorToken::GreaterThan => requirement(key, Operator::GreaterThan, self.exact_value()?),
            SelectorToken::LessThan => requirement(key, Operator::LessThan, self.exact_value()?),
            _ => Err(unexpected(&literal, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let (token, literal) = self.take();
        if token != SelectorToken::OpenPar {
            return Err(SelectorError::NoValues(literal));
        }
        let (token, literal) = self.peek();
        match token {
            SelectorToken::Identifier | SelectorToken::Comma => {
                let values = self.identifiers()?;
                let (token, literal) = self.take();
                if token == SelectorToken::ClosedPar { Ok(values) } else { Err(unexpected(&literal, "')'")) }
            }
            SelectorToken::ClosedPar => {
                self.take();
                Ok(vec![String::new()])
            }
            _ => Err(unexpected(literal, "',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, SelectorError> {
        let mut values = Vec::new();
        loop {
            let (token, literal) = self.take();
            match token {
                SelectorToken::Identifier => {
                    values.push(literal);
                    let (token, literal) = self.peek();
                    match token {
                        SelectorToken::Comma => {}
                        SelectorToken::ClosedPar => return Ok(values),
                        _ => return Err(unexpected(literal, "',' or ')'")),
                    }
                }
                SelectorToken::Comma => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        SelectorToken::ClosedPar => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        SelectorToken::Comma => values.push(String::new()),
                        _ => {}
                    }
                }
                _ => return Err(unexpected(&literal, "',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Vec<String>, SelectorError> {
        if matches!(self.peek().0, SelectorToken::End | SelectorToken::Comma) {
            return Ok(vec![String::new()]);
        }
        let (token, literal) = self.take();
        if token == SelectorToken::Identifier { Ok(vec![literal]) } else { Err(unexpected(&literal, "identifier")) }
    }
}

fn requirement(key: String, operator: Operator, mut values: Vec<String>) -> Result<Requirement, SelectorError> {
    values.sort();
    values.dedup();
    let path = Path::new("values");
    let mut errors = field_errors::ErrorList::new();
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (index, value) in values.iter().enumerate().filter(|(_, value)| parse_int(value).is_none()) {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(field_errors::FieldError::invalid(&path.index(index), value.as_str(), detail));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let problems = names::label_value(value);
        if !problems.is_empty() {
            errors.push(field_errors::FieldError::invalid(
                &path.index(index).key(&key),
                value.as_str(),
                problems.join("; "),
            ));
        }
    }
    errors
        .to_aggregate_message()
        .map_or(Ok(Requirement { key, operator, values }), |why| Err(SelectorError::Values(why)))
}

/// A term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    /// Field label, such as `spec.nodeName`.
    pub field: String,
    /// The value to compare with.
    pub value: String,
    /// `true` for `=` and `==`, `false` for `!=`.
    pub equal: bool,
}

/// A field selector: the conjunction of its terms; the empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Parses a selector such as `spec.nodeName=n1,status.phase!=Failed`.
    ///
    /// # Errors
    ///
    /// Upstream's message if the text is not a selector.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(SelectorError::Term { selector: text.to_owned(), term: part.to_owned() });
            };
            let value = unescape(value)?;
            // A term without both selects everything: `Transform` in `staging/src/k8s.io/apimachinery/pkg/fields`.
            if !field.is_empty() || !value.is_empty() {
                terms.push(FieldTerm { field: field.to_owned(), value, equal });
            }
        }
        Ok(Self { terms })
    }

    /// Returns a selector for the object with this name.
    pub(crate) fn for_name(name: &str) -> Self {
        Self { terms: vec![FieldTerm { field: "metadata.name".to_owned(), value: name.to_owned(), equal: true }] }
    }

    /// Checks that `kind` supports every field, and translates old field names.
    ///
    /// # Errors
    ///
    /// Upstream's message for an unsupported field.
    pub(crate) fn check(&mut self, kind: &Resource) -> Result<(), SelectorError> {
        for term in &mut self.terms {
            if term.field == "spec.host" && kind.group.is_empty() && kind.plural == "pods" {
                "spec.nodeName".clone_into(&mut term.field);
            }
            let known = match term.field.as_str() {
                "metadata.name" => true,
                "metadata.namespace" => kind.namespaced || !has_own_labels(kind),
                field => kind.selectable.iter().any(|known| known.label == field),
            };
            if !known {
                let field = term.field.clone();
                return Err(if &*kind.group == "batch" && &*kind.plural == "jobs" {
                    SelectorError::JobField(field)
                } else if &*kind.plural == "resourceslices" && &*kind.group == "resource.k8s.io" {
                    SelectorError::SliceField(field)
                } else if has_own_labels(kind) {
                    SelectorError::Field(field)
                } else {
                    SelectorError::UnknownField(field)
                });
            }
        }
        Ok(())
    }

    /// Returns the value that `field` must equal, if there is such a term.
    pub(crate) fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Returns true if the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns true if an object with the fields of `value_of` matches.
    pub(crate) fn matches<'a>(&self, value_of: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field) == term.value) == term.equal)
    }
}

/// Returns true for resources with field labels of their own; their message for an unsupported label differs.
fn has_own_labels(kind: &Resource) -> bool {
    !kind.selectable.is_empty() || kind.custom.is_some()
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                other => return Err(SelectorError::Escape(other.map(String::from).unwrap_or_default())),
            },
            ',' | '=' => return Err(SelectorError::Unescaped(c)),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

/// The label and field selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListSelector {
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
}

impl ListSelector {
    /// Returns true if the object, of kind `kind`, matches.
    pub(crate) fn matches(&self, kind: &Resource, stored: &StoredObject) -> bool {
        self.labels.matches(|key| stored.label(key)) && self.fields_match(kind, stored)
    }

    /// Returns true if both selectors match everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns true if more than name and namespace count, which a conversion between versions can change.
    pub(crate) fn reads_content(&self) -> bool {
        !self.labels.is_empty() || self.fields.terms.iter().any(|term| !is_identity(&term.field))
    }

    /// Returns the selector without the terms about more than name and namespace.
    pub(crate) fn by_identity(&self) -> Self {
        let terms = self.fields.terms.iter().filter(|term| is_identity(&term.field)).cloned().collect();
        Self { labels: LabelSelector::default(), fields: FieldSelector { terms } }
    }

    /// Returns true if an object, in the version of `kind`, matches.
    pub(crate) fn matches_object(&self, kind: &Resource, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        self.labels.matches(label) && self.fields.matches(|field| field_of(kind, object, field))
    }

    fn fields_match(&self, kind: &Resource, stored: &StoredObject) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        if kind.custom.is_some() && !kind.shows_as_stored(stored.revision()) && self.reads_content() {
            let object = kind.from_storage(stored.value());
            return self.fields.matches(|field| field_of(kind, &object, field));
        }
        if self.fields.terms.iter().all(|term| stored.field(&term.field).is_some()) {
            return self.fields.matches(|field| stored.field(field).unwrap_or_default().into());
        }
        // The object was written through another version or group of the same storage, such as the other Event:
        // decode it.
        let object = stored.value();
        self.fields.matches(|field| field_of(kind, &object, field))
    }
}

fn is_identity(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// Returns the value of a field of an object for comparison with selectors.
fn field_of<'o>(kind: &Resource, object: &'o Value, field: &str) -> Cow<'o, str> {
    match field {
        "metadata.name" => metadata::name(object).into(),
        "metadata.namespace" => metadata::namespace(object).into(),
        _ => {
            let known = kind.selectable.iter().find(|known| known.label == field);
            known.map_or_else(Cow::default, |known| known.value_in(object))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn labels(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<&'static str> {
        move |key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    #[rstest]
    #[case::equality("a=1", true)]
    #[case::double_equality("a==1,b=2", true)]
    #[case::inequality_of_absent("c!=1", true)]
    #[case::inequality("a!=1", false)]
    #[case::set("a in (1,2), b notin (1)", true)]
    #[case::set_of_absent("c in (1)", false)]
    #[case::not_in_absent("c notin (1)", true)]
    #[case::exists("a", true)]
    #[case::absent("!c", true)]
    #[case::absent_but_there("!a", false)]
    #[case::greater("b>1", true)]
    #[case::less("b<2", false)]
    #[case::empty("", true)]
    #[case::empty_set_is_the_empty_value("a in ()", false)]
    #[case::empty_value("a=", false)]
    #[case::words_as_values("a notin (in,notin)", true)]
    #[case::spaces("  a  =  1 ", true)]
    fn label_selectors_select(#[case] selector: &str, #[case] selected: bool) {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(labels(&[("a", "1"), ("b", "2")])), selected);
    }

    #[rstest]
    #[case("a===b", "unable to parse requirement: found '=', expected: identifier")]
    #[case("a in b", "unable to parse requirement: found 'b' expected: '('")]
    #[case("!", "unable to parse requirement: found '', expected: identifier")]
    #[case("a,", "found '', expected: identifier after ','")]
    #[case("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")]
    #[case(",a", "found ',', expected: !, identifier, or 'end of string'")]
    #[case("a in (x", "unable to parse requirement: found '', expected: ',' or ')'")]
    #[case(
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
    )]
    fn label_selector_errors_are_upstreams(#[case] selector: &str, #[case] error: &str) {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), error);
    }

    #[rstest]
    #[case("spec.nodeName=n1,status.phase!=Failed", true)]
    #[case("spec.nodeName==n1", true)]
    #[case("spec.nodeName!=n1", false)]
    #[case(",,", true)]
    #[case("", true)]
    fn field_selectors_select(#[case] selector: &str, #[case] selected: bool) {
        let parsed = FieldSelector::parse(selector).unwrap();
        let value = |field: &str| if field == "spec.nodeName" { "n1".into() } else { "Running".into() };
        assert_eq!(parsed.matches(value), selected);
    }

    #[rstest]
    #[case("foo", "invalid selector: 'foo'; can't understand 'foo'")]
    #[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
    #[case(r"a=b\x", r"invalid field selector: invalid escape sequence: \x")]
    fn field_selector_errors_are_upstreams(#[case] selector: &str, #[case] error: &str) {
        assert_eq!(FieldSelector::parse(selector).unwrap_err().to_string(), error);
    }

    proptest! {
        #[test]
        fn parsers_do_not_panic(text in ".{0,60}") {
            let _ = LabelSelector::parse(&text);
            let _ = FieldSelector::parse(&text);
        }

        #[test]
        fn parsers_do_not_panic_near_the_grammar(text in "[a-c!=<>(), in\\\\]{0,24}") {
            let _ = LabelSelector::parse(&text);
            let _ = FieldSelector::parse(&text);
        }
    }
}
