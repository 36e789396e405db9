//! JSON paths, as printer columns of definitions use them. Pure.
//! See `staging/src/k8s.io/client-go/util/jsonpath` of Kubernetes 1.36, with missing keys allowed.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::json;
use super::value::Value;

/// Most values that a step may select. Upstream has no limit.
const MAX_RESULTS: usize = 100_000;

/// A JSON path: fields, indexes, slices, unions, wildcards, recursive descent and filters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonPath {
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    /// A text, number or boolean.
    Literal(Value),
    Field(String),
    Slice(Slice),
    /// The items for which both sides compare as the operator says.
    Filter {
        left: Vec<PathStep>,
        operator: String,
        right: Vec<PathStep>,
    },
    /// The items in which the path selects something.
    Exists(Vec<PathStep>),
    Wildcard,
    Recursive,
    Union(Vec<Vec<PathStep>>),
    /// A keyword, which only templates may have.
    Keyword,
}

/// The items from `start` until before `end`; negative numbers count from the end of the list.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// `end` follows from a single index.
    derived: bool,
    step: Option<i64>,
}

/// The values that a step selects.
type Selected<'a> = Vec<Cow<'a, Value>>;

/// A path that cannot be evaluated for an object.
#[derive(Debug, PartialEq)]
struct Unusable {
    /// True if values had been selected before, which counts for the existence of a path.
    some: bool,
}

impl JsonPath {
    /// Parses a path such as `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.a['b\.c'][-1:]`.
    pub fn parse(path: &str) -> Option<Self> {
        Some(Self { steps: action(path)? })
    }

    /// Returns the first value that the path selects.
    pub fn first<'a>(&self, object: &'a Value) -> Option<Cow<'a, Value>> {
        walk(&self.steps, vec![Cow::Borrowed(object)]).ok()?.into_iter().next()
    }
}

/// Parses the text between braces: `parseAction` of `parser.go`.
fn action(path: &str) -> Option<Vec<PathStep>> {
    let template = format!("{path}}}");
    let (steps, mut rest) = inside_action(&template)?;
    // A closing brace in the path begins a template. Its further actions must be valid, but have no effect.
    while let Some((_, next)) = rest.split_once('{') {
        (_, rest) = inside_action(next)?;
    }
    Some(steps)
}

/// Parses steps until a closing brace; returns them and the text after it.
fn inside_action(text: &str) -> Option<(Vec<PathStep>, &str)> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((steps, after));
        }
        let mut letters = rest.chars();
        let letter = letters.next()?;
        let after = letters.as_str();
        rest = match letter {
            _ if rest.starts_with("[?(") => {
                let (step, after) = filter(&rest[3..])?;
                steps.push(step);
                after
            }
            _ if rest.starts_with("..") => {
                if steps.last() == Some(&PathStep::Recursive) {
                    return None;
                }
                steps.push(PathStep::Recursive);
                let after = &rest[2..];
                if after.starts_with(is_alphanumeric) { field(after, &mut steps) } else { after }
            }
            ' ' | '@' | '$' => after,
            '[' => array(after, &mut steps)?,
            '"' | '\'' => {
                let (text, after) = quote(rest, letter)?;
                steps.push(PathStep::Literal(json!(text)));
                after
            }
            '.' => field(after, &mut steps),
            '+' | '-' => number(rest, &mut steps)?,
            digit if digit.is_numeric() => number(rest, &mut steps)?,
            letter if is_alphanumeric(letter) => {
                let (name, after) = rest.split_at(rest.find(is_terminator).unwrap_or(rest.len()));
                steps.push(match name {
                    "true" | "false" => PathStep::Literal(json!(name == "true")),
                    _ => PathStep::Keyword,
                });
                after
            }
            _ => return None,
        };
    }
}

fn is_alphanumeric(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn is_terminator(letter: char) -> bool {
    " \t\r\n.,[]$@{}".contains(letter)
}

/// Parses the name of a field, in which a backslash escapes the next character; returns the text after it.
fn field<'t>(text: &'t str, steps: &mut Vec<PathStep>) -> &'t str {
    let mut escaped = false;
    let end = text.find(|letter: char| {
        let ends = !escaped && is_terminator(letter);
        escaped = !escaped && letter == '\\';
        ends
    });
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    steps.push(if name == "*" { PathStep::Wildcard } else { PathStep::Field(name.replace('\\', "")) });
    after
}

fn number<'t>(text: &'t str, steps: &mut Vec<PathStep>) -> Option<&'t str> {
    let digits = text.trim_start_matches(['+', '-']);
    let sign = text.len() - digits.len();
    let length = digits.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(digits.len());
    let (number, after) = text.split_at(sign + length);
    let value = match number.parse::<i64>() {
        Ok(integer) => json!(integer),
        Err(_) => json!(number.parse::<f64>().ok()?),
    };
    steps.push(PathStep::Literal(value));
    (sign <= 1).then_some(after)
}

/// Parses a text in quotes; returns it and the text after it.
fn quote(text: &str, mark: char) -> Option<(String, &str)> {
    let inner = text.strip_prefix(mark)?;
    let mut before = mark;
    let end = inner.find(|letter: char| {
        let ends = letter == '\n' || (letter == mark && before != '\\');
        before = letter;
        ends
    })?;
    let (quoted, after) = inner.split_at(end);
    let after = after.strip_prefix(mark)?;
    if !quoted.contains('\\') {
        return Some((quoted.to_owned(), after));
    }
    let escaped = quoted.replace("\\'", "'").replace('"', "\\\"").replace("\\\\\"", "\\\"");
    Some((serde_json::from_str(&format!("\"{escaped}\"")).ok()?, after))
}

/// Parses the text in square brackets; returns the text after them.
fn array<'t>(inner: &'t str, steps: &mut Vec<PathStep>) -> Option<&'t str> {
    let (text, after) = inner.split_once(']').filter(|(text, _)| !text.contains('\n'))?;
    let text = if text == "*" { ":" } else { text };
    if text.contains(',') {
        let parts = text.split(',').map(|part| action(&format!("[{}]", part.trim_matches(' '))));
        steps.push(PathStep::Union(parts.collect::<Option<_>>()?));
        return Some(after);
    }
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    if let Some(key) = quoted.filter(|key| !key.contains('\'')) {
        steps.extend(action(&format!(".{key}"))?);
        return Some(after);
    }
    steps.push(PathStep::Slice(slice(text)?));
    Some(after)
}

fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let number = |part: Option<&str>| -> Option<Option<i64>> {
        match part.filter(|part| !part.is_empty()) {
            Some(part) if part.starts_with('+') => None,
            Some(part) => part.parse().ok().map(Some),
            None => Some(None),
        }
    };
    let start = number(parts.next())?;
    let end = parts.next();
    let derived = end.is_none();
    let end = if derived { Some(start.unwrap_or(0).checked_add(1)?) } else { number(end)? };
    let step = number(parts.next())?;
    parts.next().is_none().then_some(Slice { start, end, derived, step })
}

/// Parses a filter after its opening parenthesis; returns the text after its closing bracket.
fn filter(text: &str) -> Option<(PathStep, &str)> {
    let mut mark = None;
    let mut closed = false;
    let mut before = '(';
    let end = text.find(|letter: char| {
        match (letter, mark) {
            ('"' | '\'', None) => mark = Some(letter),
            (letter, Some(mark)) if letter == mark && before != '\\' => closed = true,
            _ => {}
        }
        before = letter;
        letter == '\n' || (letter == ')' && mark.is_some() == closed)
    })?;
    let (condition, after) = text.split_at(end);
    let after = after.strip_prefix(")]")?;
    let is_operator = |letter: char| "!<>=".contains(letter);
    let compared = condition.find(is_operator).filter(|&at| at > 0).and_then(|at| {
        let (left, rest) = condition.split_at(at);
        let length = rest.find(|letter| !is_operator(letter))?;
        let (operator, right) = rest.split_at(length);
        Some((left, operator, right))
    });
    let step = match compared {
        Some((left, operator, right)) => {
            PathStep::Filter { left: action(left)?, operator: operator.to_owned(), right: action(right)? }
        }
        None => PathStep::Exists(action(condition)?),
    };
    Some((step, after))
}

/// Applies steps one after the other.
fn walk<'a>(steps: &[PathStep], input: Selected<'a>) -> Result<Selected<'a>, Unusable> {
    let mut found = input;
    for step in steps {
        found = step.apply(found)?;
        if found.len() > MAX_RESULTS {
            return Err(Unusable { some: true });
        }
    }
    Ok(found)
}

/// Returns the members of a value that pass; owned if the value is.
fn members(value: Cow<'_, Value>) -> Selected<'_> {
    match value {
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(list)) => list.into_iter().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(fields)) => fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect(),
        // Go indexes the bytes of a text.
        text => text.as_str().map_or(&[] as &[u8], str::as_bytes).iter().map(|byte| Cow::Owned(json!(byte))).collect(),
    }
}

impl PathStep {
    fn apply<'a>(&self, input: Selected<'a>) -> Result<Selected<'a>, Unusable> {
        match self {
            Self::Literal(value @ Value::String(_)) => Ok(vec![Cow::Owned(value.clone())]),
            Self::Literal(value) => Ok(input.iter().map(|_| Cow::Owned(value.clone())).collect()),
            Self::Field(name) => Ok(input.into_iter().filter_map(|value| member(value, name)).collect()),
            Self::Slice(slice) => slice.apply(input),
            Self::Wildcard => Ok(input.into_iter().flat_map(members).collect()),
            Self::Recursive => {
                let mut found = Vec::new();
                for value in input {
                    descend(value, &mut found);
                }
                Ok(found)
            }
            Self::Union(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    let more = walk(part, input.clone()).map_err(|_| Unusable { some: !input.is_empty() })?;
                    found.extend(more);
                }
                Ok(found)
            }
            Self::Filter { left, operator, right } => {
                filtered(input, |item| compares(walk(left, vec![item.clone()])?, operator, walk(right, vec![item])?))
            }
            Self::Exists(path) => filtered(input, |item| match walk(path, vec![item]) {
                Ok(found) => Ok(!found.is_empty()),
                Err(error) => Ok(error.some),
            }),
            Self::Keyword => Err(Unusable { some: !input.is_empty() }),
        }
    }
}

fn member<'a>(value: Cow<'a, Value>, name: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.as_object()?.get(name).cloned().map(Cow::Owned),
    }
}

/// Adds a value and all values in it that have members themselves: `evalRecursive`.
fn descend<'a>(value: Cow<'a, Value>, found: &mut Selected<'a>) {
    let below = members(value.clone());
    if !below.is_empty() && found.len() <= MAX_RESULTS {
        found.push(value);
        for value in below {
            descend(value, found);
        }
    }
}

/// Returns the items of lists for which a condition holds: `evalFilter`.
fn filtered<'a>(
    input: Selected<'a>,
    condition: impl Fn(Cow<'a, Value>) -> Result<bool, Unusable>,
) -> Result<Selected<'a>, Unusable> {
    let mut found = Vec::new();
    for value in input {
        if !value.is_array() {
            return Err(Unusable { some: true });
        }
        for item in members(value) {
            if condition(item.clone())? {
                found.push(item);
            }
        }
    }
    Ok(found)
}

/// Compares two values as Go's templates do: only scalars of the same type can be.
fn compares(left: Selected<'_>, operator: &str, right: Selected<'_>) -> Result<bool, Unusable> {
    let error = Unusable { some: true };
    if left.is_empty() || right.is_empty() {
        return Ok(false);
    }
    let ([left], [right]) = (left.as_slice(), right.as_slice()) else { return Err(error) };
    let order = match (&**left, &**right) {
        (Value::Bool(left), Value::Bool(right)) => match operator {
            "==" | "!=" => left.cmp(right),
            _ => return Err(error),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (left @ Value::Number(_), right @ Value::Number(_)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Less),
            _ => return Err(error),
        },
        _ => return Err(error),
    };
    match operator {
        "==" => Ok(order.is_eq()),
        "!=" => Ok(order.is_ne()),
        "<" => Ok(order.is_lt()),
        "<=" => Ok(order.is_le()),
        ">" => Ok(order.is_gt()),
        ">=" => Ok(order.is_ge()),
        _ => Err(error),
    }
}

impl Slice {
    /// Returns the items of lists that the slice has; it is an error if a list is too short: `evalArray`.
    fn apply<'a>(&self, input: Selected<'a>) -> Result<Selected<'a>, Unusable> {
        let error = || Unusable { some: true };
        let mut found = Vec::new();
        for value in input.into_iter().filter(|value| !value.is_null()) {
            let length = value.as_array().map(Vec::len).ok_or_else(error)?;
            let length = i64::try_from(length).map_err(|_| error())?;
            let start = self.start.unwrap_or(0);
            let start = if start < 0 { start + length } else { start };
            let end = self.end.unwrap_or(length);
            let end = if end < 0 || (end == 0 && self.derived) { end + length } else { end };
            if start == end {
                return Ok(found);
            }
            let step = usize::try_from(self.step.unwrap_or(1)).ok().filter(|step| *step > 0).ok_or_else(error)?;
            if !(0..length).contains(&start) || !(0..=length).contains(&end) || start > end {
                return Err(error());
            }
            let from = usize::try_from(start).map_err(|_| error())?;
            let count = usize::try_from(end - start).map_err(|_| error())?;
            found.extend(members(value).into_iter().skip(from).take(count).step_by(step));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(".spec.replicas", Some(json!(3)))]
    #[case("$.spec.replicas", Some(json!(3)))]
    #[case(".spec .replicas", Some(json!(3)))]
    #[case(".conditions[?(@.type==\"Ready\")].status", Some(json!("True")))]
    #[case(".conditions[?(@.type=='Ready')].status", Some(json!("True")))]
    #[case(".conditions[?(@.type!=\"Ready\")].status", Some(json!("x")))]
    #[case(".conditions[?(@.n>2)].type", Some(json!("Ready")))]
    #[case(".conditions[?(@.n>=1)].type", Some(json!("A")))]
    #[case(".conditions[?(@.n<2)].type", Some(json!("A")))]
    #[case(".conditions[?(@.n<=0)].type", None)]
    #[case(".conditions[?(@.on==true)].type", Some(json!("Ready")))]
    #[case(".conditions[?(@.on)].type", Some(json!("Ready")))]
    #[case(".conditions[?(@.absent)].type", None)]
    #[case(".conditions[?(@.absent==1)].type", None)]
    #[case::kinds_that_do_not_compare(".conditions[?(@.n>2.5)].type", None)]
    #[case::unknown_operator(".conditions[?(@.n<>2)].type", None)]
    #[case::index_in_a_filter(".lists[?(@[0]==1)][1]", Some(json!(2)))]
    #[case(".conditions[-1:].type", Some(json!("Ready")))]
    #[case(".conditions[0:2].type", Some(json!("A")))]
    #[case(".conditions[1:].type", Some(json!("Ready")))]
    #[case(".list[::2]", Some(json!(1)))]
    #[case(".list[1::2]", Some(json!(2)))]
    #[case(".list[0:9]", None)]
    #[case(".list[2:1]", None)]
    #[case(".list[::0]", None)]
    #[case(".list[1]", Some(json!(2)))]
    #[case(".list[-1]", Some(json!(3)))]
    #[case(".list[]", Some(json!(1)))]
    #[case(".list[7]", None)]
    #[case(".list[2,0]", Some(json!(3)))]
    #[case(".spec['replicas','other']", Some(json!(3)))]
    #[case(".list[*]", Some(json!(1)))]
    #[case(".conditions[*].type", Some(json!("A")))]
    #[case(".spec.*", Some(json!(3)))]
    #[case::recursion("..status", Some(json!("x")))]
    #[case::recursion(".spec..replicas", Some(json!(3)))]
    #[case(".labels['x\\.y/z']", Some(json!("v")))]
    #[case::dots_must_be_escaped(".labels['x.y/z']", None)]
    #[case(".labels.x\\.y/z", Some(json!("v")))]
    #[case(".nothing", Some(Value::Null))]
    #[case(".nothing.field", None)]
    #[case(".nothing[0]", None)]
    #[case(".missing.field", None)]
    #[case(".", None)]
    #[case(".spec[0]", None)]
    #[case("spec", None)]
    #[case(".spec.replicas}{.list}", Some(json!(3)))]
    fn paths(#[case] path: &str, #[case] found: Option<Value>) {
        let object = json!({"spec": {"replicas": 3}, "list": [1, 2, 3], "nothing": null, "labels": {"x.y/z": "v"},
            "lists": [[0, 1], [1, 2]],
            "conditions": [{"type": "A", "status": "x", "n": 1}, {"type": "Ready", "status": "True", "n": 3, "on": true}]});
        assert_eq!(JsonPath::parse(path).unwrap().first(&object).map(Cow::into_owned), found);
    }

    #[rstest]
    #[case(".a[")]
    #[case(".a[?(@.x==")]
    #[case(".a[?(@.x=='b)]")]
    #[case(".spec[\"a\"]")]
    #[case(".a[b]")]
    #[case(".a[1:2:3:4]")]
    #[case(".a]")]
    #[case(".a,b")]
    #[case("....a")]
    #[case(".a{")]
    #[case(".a}{.b[}")]
    #[case(".a\n")]
    fn bad_paths(#[case] path: &str) {
        assert_eq!(JsonPath::parse(path), None);
    }

    #[test]
    fn repeated_recursion_is_ended() {
        let deep = (0..400).fold(json!([1]), |inner, _| json!([inner, 2]));
        assert_eq!(JsonPath::parse("..[*]..[*]..[*]..[*]").unwrap().first(&deep), None);
    }

    proptest::proptest! {
        #[test]
        fn no_path_makes_it_panic(path in "[.a-z\\[\\]*0-9'?()@=!<>:,\"\\\\{}$-]{0,40}") {
            if let Some(path) = JsonPath::parse(&path) {
                path.first(&json!({"a": [{"b": 1}, 2], "c": {"d": "e"}}));
            }
        }
    }
}
