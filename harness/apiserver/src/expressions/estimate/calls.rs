//! Estimates of functions and operators. Follows `functionCost` in `checker/cost.go` of cel-go, the estimators of its
//! extensions `ext/lists.go` and `ext/sets.go`, and `EstimateCallCost` in
//! `staging/src/k8s.io/apiserver/pkg/cel/library/cost.go` of Kubernetes 1.36. PURE.
//!
//! Upstream asks these in the order extensions, Kubernetes, cel-go for every overload that the types allow, and the
//! estimate covers all of them.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::super::types::CelType;
use super::range::{EntrySizes, Range};
use super::{AstNode, Estimator};

/// Cost of a character relative to an operation.
const PER_CHARACTER: f64 = 0.1;
/// Cost of a character of a regular expression.
const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Length of the pattern that a named format is taken to have: `MaxNameFormatRegexSize`.
const LONGEST_FORMAT: f64 = 128.0;
/// Longest name of a format: `MaxFormatSize`.
const LONGEST_FORMAT_NAME: u64 = 64;
const ONE: Range = Range::exactly(1);

/// An estimate without the operands: the cost, and the size of the result.
type Estimate = (Range, Option<Range>);

/// The operands of a call.
#[derive(Clone, Copy)]
struct Operands<'n, 'a> {
    target: Option<&'n AstNode<'a>>,
    args: &'n [(Range, AstNode<'a>)],
}

impl<'n, 'a> Operands<'n, 'a> {
    fn node(&self, index: usize) -> Option<&'n AstNode<'a>> {
        self.args.get(index).map(|(_, node)| node)
    }

    fn size(&self, index: usize) -> Range {
        self.node(index).map_or(Range::UNKNOWN, AstNode::size_or_unknown)
    }

    fn target_size(&self) -> Range {
        self.target.map_or(Range::UNKNOWN, AstNode::size_or_unknown)
    }

    /// Returns true if the type of an argument can be this one.
    fn may_be(&self, index: usize, ty: &CelType) -> bool {
        self.node(index).is_some_and(|node| node.ty == CelType::Dyn || node.ty == *ty)
    }

    fn may_be_list(&self, index: usize) -> bool {
        self.node(index).is_some_and(|node| matches!(node.ty, CelType::Dyn | CelType::List(_)))
    }

    fn may_be_map(&self, index: usize) -> bool {
        self.node(index).is_some_and(|node| matches!(node.ty, CelType::Dyn | CelType::Map(..)))
    }

    /// Returns true if the type of an argument can be one without a size.
    fn may_be_scalar(&self, index: usize) -> bool {
        let sized = |ty: &CelType| matches!(ty, CelType::Text | CelType::Bytes | CelType::List(_) | CelType::Map(..));
        self.node(index).is_some_and(|node| !sized(&node.ty))
    }
}

impl<'a> Estimator<'a> {
    /// Estimates a call with its arguments, without its target.
    pub(super) fn function(
        &mut self,
        expression: &'a IdedExpr,
        name: &str,
        target: Option<&AstNode<'a>>,
        args: &[(Range, AstNode<'a>)],
    ) -> Range {
        let operands = Operands { target, args };
        let sum = args.iter().fold(Range::default(), |sum, (cost, _)| sum.plus(*cost));
        let (cost, size) = match (name, args) {
            ("_&&_" | "_||_", [(a, _), (b, _)]) => {
                (Range { least: a.least, most: a.most.saturating_add(b.most) }, self.size(expression))
            }
            ("_?_:_", [(condition, _), (a, yes), (b, no)]) => {
                let entries = self.entries_of(yes).zip(self.entries_of(no)).map(|(a, b)| a.union(b));
                self.set_entry_sizes(expression, entries);
                let size = yes.size_or_unknown().union(no.size_or_unknown());
                (condition.plus(a.union(*b)), Some(size))
            }
            ("_[_]", [(_, container), _]) => {
                self.index(expression, &operands, container);
                (ONE.plus(sum), self.sizes.get(&expression.id).copied())
            }
            _ => {
                let known = extension(name, &operands).or_else(|| self.library(name, &operands));
                let (cost, size) = known.unwrap_or_else(|| self.standard(expression, name, &operands));
                let size = size.or_else(|| self.size(expression));
                (cost.plus(sum), size)
            }
        };
        self.set_size(expression, size);
        cost
    }

    fn entries_of(&self, node: &AstNode<'_>) -> Option<EntrySizes> {
        node.expression.and_then(|expression| self.entry_sizes(expression))
    }

    /// Notes the path and the size of an entry of a list or a map.
    fn index(&mut self, expression: &'a IdedExpr, operands: &Operands<'_, 'a>, container: &AstNode<'a>) {
        let mut size = None;
        let steps = [("@items", operands.may_be_list(0)), ("@values", operands.may_be_map(0))];
        for (step, _) in steps.iter().filter(|(_, possible)| *possible) {
            size = self.entries_of(container).map(|entries| entries.value);
            if let Some(container) = container.expression {
                let path = self.below(container, step);
                self.set_path(expression, Some(path));
            }
            size = size.or_else(|| self.size(expression));
        }
        let size = size.or_else(|| self.size(expression));
        self.set_size(expression, size);
    }

    /// Estimates operators and functions of cel-go itself.
    fn standard(&mut self, expression: &'a IdedExpr, name: &str, operands: &Operands<'_, 'a>) -> Estimate {
        let size = |index: usize| operands.size(index);
        let both = |ty: &CelType| operands.may_be(0, ty) && operands.may_be(1, ty);
        let text = CelType::Text;
        let overloads: Vec<Option<Estimate>> = match (name, operands.args.len()) {
            ("format", 1) => vec![Some((operands.target_size().scaled(PER_CHARACTER), None))],
            ("bytes", 1) => {
                let made = Range { least: size(0).least, most: size(0).most.saturating_mul(4) };
                let converted = (size(0).scaled(PER_CHARACTER), Some(made));
                vec![
                    operands.may_be(0, &CelType::Bytes).then_some((ONE, None)),
                    operands.may_be(0, &text).then_some(converted),
                ]
            }
            ("string", 1) => {
                let made = Range { least: size(0).least / 4, most: size(0).most };
                let converted = (size(0).scaled(PER_CHARACTER), Some(made));
                let other = operands.node(0).is_some_and(|node| node.ty != CelType::Bytes);
                vec![operands.may_be(0, &CelType::Bytes).then_some(converted), other.then_some((ONE, None))]
            }
            ("strings.quote", 1) => {
                let two = Range::exactly(2);
                let made = Range { least: size(0).least, most: size(0).most.saturating_mul(2) }.plus(two);
                vec![Some((size(0).scaled(PER_CHARACTER), Some(made)))]
            }
            ("startsWith" | "endsWith", 1) => vec![Some((size(0).scaled(PER_CHARACTER), None))],
            ("matches", 1) => {
                vec![Some((pattern_cost(operands.target_size(), size(0)), None))]
            }
            ("contains", 1) => {
                let cost = operands.target_size().scaled(PER_CHARACTER).times(size(0).scaled(PER_CHARACTER));
                vec![Some((cost, None))]
            }
            ("@in", 2) => {
                vec![operands.may_be_list(1).then(|| (size(1), None)), operands.may_be_map(1).then_some((ONE, None))]
            }
            ("_==_" | "_!=_", 2) => vec![Some((compared(size(0), size(1)), None))],
            ("_<_" | "_<=_" | "_>_" | "_>=_", 2) => {
                let texts = both(&text) || both(&CelType::Bytes);
                let others = operands.may_be_scalar(0) && operands.may_be_scalar(1);
                vec![texts.then(|| (compared(size(0), size(1)), None)), others.then_some((ONE, None))]
            }
            ("_+_", 2) => {
                let sum = size(0).plus(size(1));
                let texts = both(&text) || both(&CelType::Bytes);
                let lists = operands.may_be_list(0) && operands.may_be_list(1);
                let others = operands.may_be_scalar(0) && operands.may_be_scalar(1);
                if texts || lists {
                    let sides = [0, 1].map(|index| operands.node(index).and_then(|node| self.entries_of(node)));
                    let entries = sides[0].zip(sides[1]).map(|(a, b)| a.union(b));
                    self.set_entry_sizes(expression, entries);
                }
                vec![
                    texts.then(|| (sum.scaled(PER_CHARACTER), Some(sum))),
                    lists.then_some((ONE, Some(sum))),
                    others.then_some((ONE, None)),
                ]
            }
            _ => Vec::new(),
        };
        let covered = overloads.into_iter().flatten().reduce(|(a, x), (b, y)| (a.union(b), joined(x, y)));
        covered.unwrap_or((ONE, None))
    }

    /// Estimates functions of Kubernetes' libraries.
    fn library(&mut self, name: &str, operands: &Operands<'_, 'a>) -> Option<Estimate> {
        let size = |index: usize| operands.size(index);
        let parsed = || size(0).scaled(PER_CHARACTER);
        if matches!(name, "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "join") {
            return self.over_items(name, operands);
        }
        Some(match (name, operands.target) {
            ("check", Some(_)) => (Range::exactly(350_000), None),
            ("fieldSelector" | "labelSelector", Some(_)) => {
                let requirements = size(0).scaled(0.5).scaled(50.0);
                (Range::exactly(10).plus(parsed()).plus(requirements), None)
            }
            ("url" | "jsonpatch.escapeKey", None) => (parsed(), Some(size(0))),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(_)) => {
                (operands.target_size().scaled(PER_CHARACTER), Some(operands.target_size()))
            }
            ("replace", Some(_)) if operands.args.len() >= 2 => {
                let replaced = replaced_size(operands.target_size(), size(0), size(1));
                (operands.target_size().scaled(2.0 * PER_CHARACTER), Some(replaced))
            }
            ("split", Some(_)) => {
                let most = literal_int(operands.node(1)).unwrap_or(operands.target_size().most);
                (operands.target_size().scaled(2.0 * PER_CHARACTER), Some(Range { least: 0, most }))
            }
            ("find" | "findAll", Some(_)) => {
                let most = operands.target_size().most;
                (pattern_cost(operands.target_size(), size(0)), Some(Range { least: 0, most }))
            }
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", None) => {
                (parsed(), None)
            }
            ("ip.isCanonical", None) => (size(0).scaled(2.0 * PER_CHARACTER), None),
            ("containsIP" | "containsCIDR", Some(_)) => (addresses(name, operands), None),
            ("validate", Some(_)) => (parsed().scaled(LONGEST_FORMAT * PER_PATTERN_CHARACTER), None),
            ("_==_", None) => (equality(operands)?, None),
            _ => return None,
        })
    }

    /// Estimates functions that visit all items of a list.
    fn over_items(&mut self, name: &str, operands: &Operands<'_, 'a>) -> Option<Estimate> {
        let target = operands.target?;
        let size = target.size_or_unknown();
        let items = self.items(target);
        if name != "join" {
            let Some(items) = items else { return Some((size.scaled(PER_CHARACTER), None)) };
            let texts = matches!(items.ty, CelType::Text | CelType::Bytes);
            let of_text = if texts { items.size_or_unknown().scaled(PER_CHARACTER) } else { Range::default() };
            return Some((size.times(ONE.plus(of_text)), None));
        }
        let mut joined = items.map_or_else(Range::default, |items| size.times(items.size_or_unknown()));
        if !operands.args.is_empty() {
            let gaps = Range { least: size.least.saturating_sub(1), most: size.most.saturating_sub(1) };
            joined = joined.plus(operands.size(0).times(gaps));
        }
        Some((joined.scaled(PER_CHARACTER), Some(joined)))
    }

    /// Returns the items of a list, or what upstream takes for them: the first parameter of the type.
    fn items(&mut self, list: &AstNode<'a>) -> Option<AstNode<'a>> {
        let ty = match &list.ty {
            CelType::List(inner) | CelType::Optional(inner) | CelType::Map(inner, _) => (**inner).clone(),
            _ => return None,
        };
        let path = list.path.map(|path| self.paths.copied(path, "@items"));
        Some(AstNode { expression: None, path, ty, size: self.size_by_path(path) })
    }
}

fn joined(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.union(b)),
        (one, other) => one.or(other),
    }
}

/// Returns the value of a literal integer; negative ones are large, as in Go.
fn literal_int(node: Option<&AstNode<'_>>) -> Option<u64> {
    let Expr::Literal(LiteralValue::Int(number)) = &node?.expression?.expr else { return None };
    Some(u64::from_ne_bytes(number.inner().to_ne_bytes()))
}

/// Estimates functions of cel-go's extensions for lists and sets.
fn extension(name: &str, operands: &Operands<'_, '_>) -> Option<Estimate> {
    let size = operands.target_size();
    // A call, and the list that it makes.
    let list = |factor: f64, made: Range| Some((made.scaled(factor).plus(Range::exactly(11)), Some(made)));
    let sets = |factor: f64| Some((operands.size(0).times(operands.size(1)).scaled(factor).plus(ONE), None));
    let sorted = |by: &AstNode<'_>| {
        let texts = match &by.ty {
            CelType::List(item) => matches!(**item, CelType::Text | CelType::Bytes | CelType::Dyn),
            _ => true,
        };
        let size = by.size_or_unknown();
        list(if texts { 2.0 + PER_CHARACTER } else { 2.0 }, size.times(size))
    };
    match (name, operands.target, operands.args.len()) {
        ("slice", Some(_), 2) => {
            let start = literal_int(operands.node(0)).unwrap_or(0);
            let end = literal_int(operands.node(1)).unwrap_or(size.most);
            list(1.0, Range::exactly(end.wrapping_sub(start)))
        }
        ("lists.range", None, 1) => list(1.0, Range::exactly(literal_int(operands.node(0)).unwrap_or(u64::MAX))),
        ("reverse" | "flatten", Some(_), 0) => list(1.0, size),
        ("flatten", Some(_), 1) => list(literal_int(operands.node(0)).unwrap_or(u64::MAX) as f64, size),
        ("distinct", Some(_), 0) => list(2.0, size.times(size)),
        ("sort", Some(target), 0) => sorted(target),
        ("@sortByAssociatedKeys", Some(_), 1) => sorted(operands.node(0)?),
        ("sets.contains" | "sets.intersects", None, 2) => sets(1.0),
        ("sets.equivalent", None, 2) => sets(2.0),
        _ => None,
    }
}

/// Estimates the search of a pattern in a text.
fn pattern_cost(text: Range, pattern: Range) -> Range {
    text.plus(ONE).scaled(PER_CHARACTER).times(pattern.scaled(PER_PATTERN_CHARACTER))
}

/// Estimates the comparison of two addresses.
fn addresses(name: &str, operands: &Operands<'_, '_>) -> Range {
    let address = Range { least: 4, most: 16 };
    let mut cost = address.plus(address).scaled(PER_CHARACTER);
    if name == "containsCIDR" {
        cost = cost.plus(address.scaled(PER_CHARACTER)).plus(ONE);
    }
    let parsed = cost.plus(operands.size(0).scaled(PER_CHARACTER));
    match operands.node(0).map(|node| &node.ty) {
        Some(CelType::Text) => parsed,
        Some(CelType::Dyn) => cost.union(parsed),
        _ => cost,
    }
}

/// Estimates the equality of two values of a type that Kubernetes adds.
fn equality(operands: &Operands<'_, '_>) -> Option<Range> {
    let a = operands.node(0)?;
    let b = operands.node(1)?;
    let CelType::Other(name) = a.ty else { return None };
    if a.ty != b.ty {
        return None;
    }
    match name {
        "kubernetes.NamedFormat" => Some(Range { least: 1, most: LONGEST_FORMAT_NAME }.scaled(PER_CHARACTER)),
        // Upstream takes the size of the right side for both.
        "kubernetes.URL" => {
            let most = b.size.map_or(1, |size| size.most);
            Some(Range { least: 1, most }.scaled(PER_CHARACTER))
        }
        _ => Some(ONE),
    }
}

/// Returns the size of a text in which parts are replaced.
fn replaced_size(text: Range, part: Range, by: Range) -> Range {
    #[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
    let ceil = |a: u64, b: u64| (a as f64 / b as f64).ceil() as u64;
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

/// Returns the cost of comparing texts, lists or maps.
fn compared(a: Range, b: Range) -> Range {
    let most = a.most.min(b.most);
    Range { least: u64::from(most > 0), most }.scaled(PER_CHARACTER)
}
