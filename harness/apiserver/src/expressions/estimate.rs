//! Estimates what an expression costs at most, for definitions whose rules would be too expensive. Follows
//! `checker/cost.go` of cel-go and `staging/src/k8s.io/apiserver/pkg/cel/library/cost.go` of Kubernetes 1.36. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::sizes::SizedType;
use super::types::CelType;

/// Largest estimate of one expression: `StaticEstimatedCostLimit` of apiextensions-apiserver.
pub(crate) const EXPRESSION_LIMIT: u64 = 10_000_000;

/// Largest estimate of all expressions of a schema: `StaticEstimatedCRDCostLimit` there.
pub(crate) const SCHEMA_LIMIT: u64 = 100_000_000;

/// Cost of a character relative to an operation.
const PER_CHARACTER: f64 = 0.1;
/// Cost of a character of a regular expression.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Length of the pattern that a named format is taken to have: `MaxNameFormatRegexSize`.
const LONGEST_FORMAT: f64 = 128.0;

/// Least and most, of a size or of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    fn exactly(value: u64) -> Self {
        Self { least: value, most: value }
    }

    fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    fn scaled(self, factor: f64) -> Self {
        // A product that is too large becomes the largest integer.
        #[expect(clippy::cast_sign_loss, reason = "sizes and factors are not negative")]
        let scale = |value: u64| (value as f64 * factor).ceil() as u64;
        Self { least: scale(self.least), most: scale(self.most) }
    }

    fn union(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// The sizes of a list's items, or of a map's keys and values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct EntrySizes {
    is_list: bool,
    key: Range,
    value: Range,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
    /// A part of the object.
    Object(Arc<SizedType>),
    /// A part of the object that the schema does not describe, or not of the object.
    Other,
}

impl Origin {
    fn sized(&self) -> Option<&Arc<SizedType>> {
        if let Self::Object(sized) = self { Some(sized) } else { None }
    }

    fn element(&self) -> Self {
        self.sized().and_then(|sized| sized.element.clone()).map_or(Self::Other, Self::Object)
    }
}

/// The properties of an expression.
#[derive(Debug, Clone)]
struct Estimate {
    cost: Range,
    origin: Origin,
    /// The size, where the expression itself says it.
    size: Option<Range>,
    entries: Option<EntrySizes>,
    /// Type of the value.
    ty: CelType,
}

impl Estimate {
    /// Returns the size of the value.
    fn sized(&self) -> Option<Range> {
        let by_origin = || self.origin.sized().map(|sized| Range { least: 0, most: sized.most });
        let by_type = || is_scalar(&self.ty).then(|| Range::exactly(1));
        self.size.or_else(by_origin).or_else(by_type)
    }

    fn size_or_unknown(&self) -> Range {
        self.sized().unwrap_or(Range::UNKNOWN)
    }

    /// Returns the estimate of a list's items; `None` if it is no list.
    fn items(&self) -> Option<Self> {
        let CelType::List(item) = &self.ty else { return None };
        let origin = self.origin.element();
        Some(Self { cost: Range::default(), origin, size: None, entries: None, ty: (**item).clone() })
    }
}

fn is_scalar(ty: &CelType) -> bool {
    match ty {
        CelType::Bool | CelType::Double | CelType::Duration | CelType::Int | CelType::Timestamp | CelType::Uint => true,
        CelType::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

/// Returns the largest cost of an expression with the types of its parts, by identifier.
pub(crate) fn estimate(expression: &IdedExpr, types: &BTreeMap<u64, CelType>, root: &Arc<SizedType>) -> u64 {
    Estimator { types, root, scope: Vec::new() }.expression(expression).cost.most
}

struct Estimator<'a> {
    types: &'a BTreeMap<u64, CelType>,
    root: &'a Arc<SizedType>,
    scope: Vec<(&'a str, Estimate)>,
}

impl<'a> Estimator<'a> {
    fn made(&self, expression: &IdedExpr, cost: Range, size: Option<Range>) -> Estimate {
        let ty = self.types.get(&expression.id).cloned().unwrap_or(CelType::Dyn);
        Estimate { cost, origin: Origin::Other, size, entries: None, ty }
    }

    fn expression(&mut self, expression: &'a IdedExpr) -> Estimate {
        match &expression.expr {
            Expr::Literal(literal) => {
                let size = match literal {
                    LiteralValue::String(text) => text.inner().chars().count(),
                    LiteralValue::Bytes(bytes) => bytes.inner().len(),
                    _ => 1,
                };
                self.made(expression, Range::default(), Some(exactly(size)))
            }
            Expr::Ident(name) => self.variable(expression, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(parts) => self.comprehension(expression, parts),
            Expr::List(list) => {
                let items: Vec<Estimate> = list.elements.iter().map(|element| self.expression(element)).collect();
                let cost = items.iter().fold(Range::exactly(10), |sum, item| sum.plus(item.cost));
                let value = union(items.iter().map(Estimate::size_or_unknown));
                let mut made = self.made(expression, cost, Some(exactly(items.len())));
                made.entries = Some(EntrySizes { is_list: true, key: Range::exactly(1), value });
                made
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        entries.push((self.expression(&entry.key), self.expression(&entry.value)));
                    }
                }
                let cost =
                    entries.iter().fold(Range::exactly(30), |sum, (key, value)| sum.plus(key.cost).plus(value.cost));
                let key = union(entries.iter().map(|(key, _)| key.size_or_unknown()));
                let value = union(entries.iter().map(|(_, value)| value.size_or_unknown()));
                let mut made = self.made(expression, cost, Some(exactly(entries.len())));
                made.entries = Some(EntrySizes { is_list: false, key, value });
                made
            }
            Expr::Struct(_) | Expr::Unspecified => self.made(expression, Range::exactly(40), None),
        }
    }

    fn variable(&self, expression: &IdedExpr, name: &str) -> Estimate {
        let mut made = self.made(expression, Range::exactly(1), None);
        match self.scope.iter().rev().find(|(known, _)| *known == name) {
            Some((_, local)) => {
                made.origin = local.origin.clone();
                made.entries = local.entries;
                made.size = made.origin.sized().is_none().then_some(local.size).flatten();
            }
            // Names of types, too: upstream drops the first step of a path without looking at it.
            None => made.origin = Origin::Object(self.root.clone()),
        }
        made
    }

    fn select(&mut self, expression: &'a IdedExpr, select: &'a SelectExpr) -> Estimate {
        let operand = self.expression(&select.operand);
        if select.test {
            return self.made(expression, operand.cost, None);
        }
        let counts = matches!(operand.ty, CelType::Map(..) | CelType::Object(_));
        let cost = operand.cost.plus(Range::exactly(u64::from(counts)));
        let field = operand.origin.sized().and_then(|sized| sized.fields.get(&select.field)).cloned();
        Estimate { origin: field.map_or(Origin::Other, Origin::Object), ..self.made(expression, cost, None) }
    }

    fn comprehension(&mut self, expression: &'a IdedExpr, parts: &'a ComprehensionExpr) -> Estimate {
        let range = self.expression(&parts.iter_range);
        let begin = self.expression(&parts.accu_init);
        let mut cost = range.cost.plus(begin.cost);
        let outer = self.scope.len();
        self.scope.push((&parts.accu_var, Estimate { size: begin.sized(), ..begin.clone() }));
        let is_list = range.entries.map_or(matches!(range.ty, CelType::List(_)), |entries| entries.is_list);
        let element = |origin: Origin, size: Option<Range>| Estimate {
            cost: Range::default(),
            origin,
            size,
            entries: None,
            ty: CelType::Dyn,
        };
        let value = || element(range.origin.element(), range.entries.map(|entries| entries.value));
        let key = || element(Origin::Other, range.entries.map(|entries| entries.key));
        match &parts.iter_var2 {
            Some(second) => self.scope.extend([(parts.iter_var.as_str(), key()), (second, value())]),
            None => self.scope.push((&parts.iter_var, if is_list { value() } else { key() })),
        }
        let condition = self.expression(&parts.loop_cond);
        let step = self.expression(&parts.loop_step);
        self.scope.truncate(outer + 1);
        cost = cost.plus(self.expression(&parts.result).cost);
        self.scope.truncate(outer);
        let count = range.size_or_unknown();
        cost = cost.plus(count.times(step.cost.plus(condition.cost)));
        let mut made = self.made(expression, cost, None);
        match &parts.accu_init.expr {
            Expr::Literal(_) => made.size = begin.sized(),
            Expr::List(_) | Expr::Map(_) => {
                made.size = Some(count);
                made.entries = step.entries;
            }
            _ => {}
        }
        made
    }

    fn call(&mut self, expression: &'a IdedExpr, call: &'a CallExpr) -> Estimate {
        let namespace = call.target.as_ref().is_some_and(|target| {
            matches!(&target.expr, Expr::Ident(name)
                if !matches!(name.as_str(), "self" | "oldSelf") && !self.scope.iter().any(|(known, _)| known == name))
        });
        let target = call.target.as_deref().filter(|_| !namespace);
        let target = target.map(|target| self.expression(target));
        let args: Vec<Estimate> = call.args.iter().map(|arg| self.expression(arg)).collect();
        let name = call.func_name.as_str();
        if let ("dyn", [arg]) = (name, args.as_slice()) {
            return Estimate { cost: arg.cost.plus(Range::exactly(1)), ty: CelType::Dyn, ..arg.clone() };
        }
        let sum = args.iter().fold(Range::default(), |sum, arg| sum.plus(arg.cost));
        let (cost, size) = control_flow(name, &args).unwrap_or_else(|| {
            let (cost, size) = method(name, target.as_ref(), &args, call).unwrap_or_else(|| function(name, &args));
            (cost.plus(sum), size)
        });
        let of_target = target.as_ref().map_or_else(Range::default, |target| target.cost);
        let mut made = self.made(expression, cost.plus(of_target), size);
        match (name, args.as_slice()) {
            ("_[_]", [container, _]) => {
                made.size = container.entries.map(|entries| entries.value);
                made.origin = container.origin.element();
            }
            ("_+_", [a, b]) | ("_?_:_", [_, a, b]) => made.entries = joined(a.entries, b.entries),
            _ => {}
        }
        made
    }
}

fn exactly(size: usize) -> Range {
    Range::exactly(u64::try_from(size).unwrap_or(u64::MAX))
}

fn union(ranges: impl Iterator<Item = Range>) -> Range {
    ranges.reduce(Range::union).unwrap_or_default()
}

fn joined(a: Option<EntrySizes>, b: Option<EntrySizes>) -> Option<EntrySizes> {
    let (a, b) = (a?, b?);
    Some(EntrySizes { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
}

/// Estimates an operator that does not evaluate all its operands, whose costs are part of the result.
fn control_flow(name: &str, args: &[Estimate]) -> Option<(Range, Option<Range>)> {
    match (name, args) {
        ("_&&_" | "_||_", [a, b]) => {
            Some((Range { least: a.cost.least, most: a.cost.most.saturating_add(b.cost.most) }, None))
        }
        ("_?_:_", [condition, a, b]) => {
            let cost = condition.cost.plus(a.cost.union(b.cost));
            Some((cost, Some(a.size_or_unknown().union(b.size_or_unknown()))))
        }
        _ => None,
    }
}

/// Estimates a method of Kubernetes' or cel-go's libraries, without its operands.
fn method(name: &str, target: Option<&Estimate>, args: &[Estimate], call: &CallExpr) -> Option<(Range, Option<Range>)> {
    let target = target?;
    let size = target.size_or_unknown();
    let first = || args.first().map_or(Range::UNKNOWN, Estimate::size_or_unknown);
    let pattern_cost = || {
        let text = size.plus(Range::exactly(1)).scaled(PER_CHARACTER);
        text.times(first().scaled(PER_PATTERN_CHARACTER))
    };
    Some(match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match target.items() {
            Some(items) => {
                let texts = matches!(items.ty, CelType::Text | CelType::Bytes);
                let of_text = if texts { items.size_or_unknown().scaled(PER_CHARACTER) } else { Range::default() };
                (size.times(Range::exactly(1).plus(of_text)), None)
            }
            None => (size.scaled(PER_CHARACTER), None),
        },
        "lowerAscii" | "upperAscii" | "substring" | "trim" => (size.scaled(PER_CHARACTER), Some(size)),
        "replace" if args.len() >= 2 => {
            let replaced = replaced_size(size, first(), args[1].size_or_unknown());
            (size.scaled(2.0 * PER_CHARACTER), Some(replaced))
        }
        "split" => {
            let most = match call.args.get(1).map(|arg| &arg.expr) {
                Some(Expr::Literal(LiteralValue::Int(most))) => u64::try_from(*most.inner()).unwrap_or(size.most),
                _ => size.most,
            };
            (size.scaled(2.0 * PER_CHARACTER), Some(Range { least: 0, most }))
        }
        "join" => {
            let items = target.items().map_or(Range::UNKNOWN, |items| items.size_or_unknown());
            let mut joined = size.times(items);
            if !args.is_empty() {
                let gaps = Range { least: size.least.saturating_sub(1), most: size.most.saturating_sub(1) };
                joined = joined.plus(first().times(gaps));
            }
            (joined.scaled(PER_CHARACTER), Some(joined))
        }
        "find" | "findAll" => (pattern_cost(), Some(Range { least: 0, most: size.most })),
        "matches" if args.len() == 1 => (pattern_cost(), None),
        "contains" if args.len() == 1 => (size.scaled(PER_CHARACTER).times(first().scaled(PER_CHARACTER)), None),
        "validate" => (first().scaled(PER_CHARACTER).scaled(LONGEST_FORMAT * PER_PATTERN_CHARACTER), None),
        "startsWith" | "endsWith" => (first().scaled(PER_CHARACTER), None),
        "format" => (size.scaled(PER_CHARACTER), None),
        "containsIP" | "containsCIDR" => {
            let address = Range { least: 4, most: 16 };
            let mut cost = address.plus(address).scaled(PER_CHARACTER);
            if name == "containsCIDR" {
                cost = cost.plus(address.scaled(PER_CHARACTER)).plus(Range::exactly(1));
            }
            if args.first().is_some_and(|arg| arg.ty == CelType::Text) {
                cost = cost.plus(first().scaled(PER_CHARACTER));
            }
            (cost, None)
        }
        _ => return None,
    })
}

/// Returns the size of a text in which parts are replaced.
fn replaced_size(text: Range, part: Range, by: Range) -> Range {
    let ceil = |a: u64, b: u64| a.div_ceil(b.max(1));
    let (most_count, most_kept) = match part.least {
        0 => (text.most.saturating_add(1), text.most),
        least if by.most <= least => (0, text.most),
        least => (ceil(text.most, least), 0),
    };
    let (least_count, least_kept) = match part.most {
        0 => (text.least.saturating_add(1), text.least),
        most if most <= by.least => (0, text.least),
        most => (ceil(text.least, most), 0),
    };
    Range { least: least_count, most: most_count }.times(by).plus(Range { least: least_kept, most: most_kept })
}

/// Estimates an operator or a global function, without its operands.
fn function(name: &str, args: &[Estimate]) -> (Range, Option<Range>) {
    let size = |index: usize| args.get(index).map_or(Range::UNKNOWN, Estimate::size_or_unknown);
    let is = |index: usize, types: &[CelType]| args.get(index).is_some_and(|arg| types.contains(&arg.ty));
    let dynamic = || args.iter().any(|arg| arg.ty == CelType::Dyn);
    let one = Range::exactly(1);
    let text = [CelType::Text, CelType::Bytes];
    match name {
        "url" | "quantity" | "isQuantity" | "semver" | "isSemver" | "ip" | "isIP" | "cidr" | "isCIDR" => {
            (size(0).scaled(PER_CHARACTER), None)
        }
        "bytes" if is(0, &[CelType::Text]) => {
            let made = Range { least: size(0).least, most: size(0).most.saturating_mul(4) };
            (size(0).scaled(PER_CHARACTER), Some(made))
        }
        "string" if is(0, &[CelType::Bytes]) => {
            let made = Range { least: size(0).least / 4, most: size(0).most };
            (size(0).scaled(PER_CHARACTER), Some(made))
        }
        "@in" if !args.get(1).is_some_and(|arg| matches!(arg.ty, CelType::Map(..))) => (size(1), None),
        "_==_" | "_!=_" => (compared(size(0), size(1)), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is(0, &text) || is(1, &text) => (compared(size(0), size(1)), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if dynamic() => (one.union(compared(size(0), size(1))), None),
        "_+_" => {
            let both = size(0).plus(size(1));
            let lists = args.iter().any(|arg| matches!(arg.ty, CelType::List(_)));
            match () {
                () if lists => (one, Some(both)),
                () if is(0, &text) || is(1, &text) => (both.scaled(PER_CHARACTER), Some(both)),
                () if dynamic() => (one.union(both.scaled(PER_CHARACTER)), Some(both)),
                () => (one, None),
            }
        }
        _ => (one, None),
    }
}

/// Returns the cost of comparing texts, lists or maps.
fn compared(a: Range, b: Range) -> Range {
    let most = a.most.min(b.most);
    Range { least: u64::from(most > 0), most }.scaled(PER_CHARACTER)
}

/// The estimates of all expressions of one schema.
#[derive(Debug, Default)]
pub(crate) struct SchemaCost {
    total: u64,
    /// The most expensive expressions with their paths, the most expensive first.
    expensive: Vec<(u64, String)>,
}

impl SchemaCost {
    /// Adds an expression.
    pub(crate) fn add(&mut self, path: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.expensive.push((cost, path));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    /// Returns the paths of the expressions that contribute most, and the error of the schema, if the sum is too large.
    pub(crate) fn exceeded(self) -> Option<(Vec<String>, String)> {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let message = exceeded(what, self.total, SCHEMA_LIMIT)?;
        Some((self.expensive.into_iter().map(|(_, path)| path).collect(), message))
    }
}

/// Returns the error of an estimate that exceeds its limit.
pub(crate) fn exceeded(what: &str, cost: u64, limit: u64) -> Option<String> {
    if cost <= limit {
        return None;
    }
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        more if more > 100.0 => "more than 100x".to_owned(),
        little if little < 1.5 => format!("{little:.6}x"),
        other => format!("{other:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}

#[cfg(test)]
mod tests {
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
    fn costs(#[case] schema: Value, #[case] rule: &str, #[case] expected: u64) {
        let program = parse(rule).expect("an expression").program;
        let checked = check(&program, &CelType::of(&schema, false), None);
        let cost = estimate(program.expression(), &checked.types, &SizedType::of(&schema, false));
        assert_eq!(cost, expected);
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
}
