//! Costs of the calls of an expression. Follows `interpreter/runtimecost.go` of cel-go and
//! `staging/src/k8s.io/apiserver/pkg/cel/library/cost.go` of Kubernetes 1.36. PURE.
//!
//! A cost depends on values alone and not on the machine, so an expression is refused everywhere or nowhere.

use super::library;
use super::shared::SharedValue;

/// Largest cost of one evaluation: `PerCallLimit` in `staging/src/k8s.io/apiserver/pkg/apis/cel/config.go`.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;

/// Largest cost of the match conditions of one webhook or policy: `RuntimeCELCostBudgetMatchConditions` there.
pub(crate) const CONDITIONS_BUDGET: u64 = 2_500_000;

/// Largest cost of all rules of one object together: `RuntimeCELCostBudget` there.
pub(crate) const OBJECT_BUDGET: u64 = 10_000_000;

/// Most steps of one evaluation. Upstream's costs leave out work that grows with the values, such as the comparison of
/// nested lists, and a limit of time ends such evaluations there. Ordinary expressions reach the cost limit long before
/// this one.
const WORK_LIMIT: u64 = 50_000_000;

/// Longest text that an expression can make, in bytes.
const TEXT_LIMIT: u64 = 64 << 20;

/// Steps that count for the compilation of a regular expression.
pub(crate) const REGEX_WORK: u64 = 500_000;

/// Cost of an identifier or the selection of a field.
pub(crate) const SELECT: u64 = 1;
/// Cost of a new list.
pub(crate) const LIST: u64 = 10;
/// Cost of a new map.
pub(crate) const MAP: u64 = 30;
/// Cost of a new message.
pub(crate) const MESSAGE: u64 = 40;

/// The cost of an evaluation exceeds its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded;

/// Adds up the cost of one evaluation.
#[derive(Debug, Default)]
pub(crate) struct CostMeter {
    cost: u64,
    work: u64,
}

impl CostMeter {
    /// Returns the cost until now.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), LimitExceeded> {
        self.cost = self.cost.saturating_add(cost);
        self.work(1)?;
        if self.cost > CALL_LIMIT { Err(LimitExceeded) } else { Ok(()) }
    }

    /// Adds steps that upstream's cost does not count.
    pub(crate) fn work(&mut self, steps: u64) -> Result<(), LimitExceeded> {
        self.work = self.work.saturating_add(steps);
        if self.work <= WORK_LIMIT {
            return Ok(());
        }
        self.cost = self.cost.max(CALL_LIMIT + 1);
        Err(LimitExceeded)
    }

    /// Adds the cost of a call. `args` begin with the receiver, if there is one.
    pub(crate) fn call(&mut self, function: &str, args: &[SharedValue]) -> Result<(), LimitExceeded> {
        if result_bytes(function, args) > TEXT_LIMIT {
            return self.work(WORK_LIMIT + 1);
        }
        self.work(call_work(function, args))?;
        self.charge(call_cost(function, args))
    }
}

/// Returns the steps of a call.
fn call_work(function: &str, args: &[SharedValue]) -> u64 {
    let weights = || args.iter().map(SharedValue::weight);
    match function {
        "_[_]" | "_[?_]" | "_?._" | "size" => 1,
        "_+_" if args.iter().any(|arg| arg.as_list().is_some()) => {
            args.iter().fold(0, |sum: u64, arg| sum.saturating_add(arg.size()))
        }
        "_==_" | "_!=_" => weights().min().unwrap_or(1),
        "@in" if args.get(1).is_some_and(|map| map.as_map().is_some()) => 1,
        "@in" => {
            let item = args.first().map_or(1, SharedValue::weight);
            args.get(1).map_or(1, |list| list.weight().min(item.saturating_mul(list.size())))
        }
        _ => weights().fold(0, u64::saturating_add),
    }
}

/// Multiplies by a tenth, the cost of visiting a character, and rounds up.
fn traversal(characters: u64) -> u64 {
    characters.div_ceil(10)
}

/// Returns the cost of a call.
fn call_cost(function: &str, args: &[SharedValue]) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, SharedValue::size);
    let is_text = |index: usize| args.get(index).is_some_and(|arg| arg.as_text().is_some() || arg.is_bytes());
    match function {
        "bytes" | "string" | "ip" if is_text(0) => traversal(size(0)),
        "startsWith"
        | "endsWith"
        | "format"
        | "strings.quote"
        | "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "jsonpatch.escapeKey"
        | "trim"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => traversal(size(0)),
        "replace" | "split" | "ip.isCanonical" => traversal(size(0).saturating_mul(2)),
        "join" => traversal(joined_characters(args).saturating_mul(2)),
        "@in" if args.get(1).is_some_and(|list| list.as_list().is_some()) => size(1),
        "_==_" | "_!=_" => traversal(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => traversal(size(0).min(size(1))),
        "_+_" if is_text(0) => traversal(size(0).saturating_add(size(1))),
        // A regular expression is taken to have one part for every four characters.
        "matches" | "find" | "findAll" => traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
        "validate" => match args.first().and_then(library::pattern_length) {
            Some(pattern) => traversal(size(1).saturating_add(1)).saturating_mul(pattern.div_ceil(4)),
            None => 1,
        },
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => args.first().map_or(1, deep_traversal),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        "distinct" | "sort" => size(0).saturating_mul(size(0)).max(1),
        "reverse" | "slice" | "flatten" => size(0).max(1),
        "lists.range" => args.first().and_then(SharedValue::as_int).map_or(1, |count| count.max(1).unsigned_abs()),
        "containsCIDR" => 3 + args.get(1).filter(|other| other.as_text().is_some()).map_or(0, |_| traversal(size(1))),
        "containsIP" if args.get(1).is_some_and(|ip| ip.as_text().is_some()) => 1 + traversal(size(1)),
        _ => 1,
    }
}

/// Returns the cost of visiting a value with everything in it.
fn deep_traversal(value: &SharedValue) -> u64 {
    if value.as_text().is_some() || value.is_bytes() {
        return value.size() / 10;
    }
    match value.as_list() {
        Some(list) => list.inner().iter().fold(0, |sum: u64, item| {
            sum.saturating_add(deep_traversal(&SharedValue::from_box(item.clone_as_boxed())))
        }),
        None => value.weight(),
    }
}

fn joined_characters(args: &[SharedValue]) -> u64 {
    let Some(list) = args.first().and_then(SharedValue::as_list) else { return 0 };
    let between = args.get(1).map_or(0, SharedValue::size);
    list.inner().iter().fold(0, |sum: u64, item| {
        let size = item.as_sizer().map_or(0, |sizer| sizer.size().inner().unsigned_abs());
        sum.saturating_add(size).saturating_add(between)
    })
}

/// Returns an upper bound of the bytes that a call makes, for functions that can make more than their arguments hold.
fn result_bytes(function: &str, args: &[SharedValue]) -> u64 {
    let bytes = |index: usize| args.get(index).and_then(SharedValue::as_text).map_or(0, str::len);
    let bytes = |index: usize| u64::try_from(bytes(index)).unwrap_or(u64::MAX);
    match function {
        "replace" => {
            let places = bytes(0) / bytes(1).max(1) + 1;
            places.saturating_mul(bytes(2)).saturating_add(bytes(0))
        }
        "join" => joined_characters(args).saturating_mul(4),
        "lists.range" => {
            args.first().and_then(SharedValue::as_int).map_or(0, |count| count.max(0).unsigned_abs().saturating_mul(8))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cel::common::types::CelInt;
    use rstest::rstest;

    fn ints(count: i64) -> SharedValue {
        SharedValue::list((0..count).map(|number| SharedValue::new(CelInt::from(number))).collect())
    }

    fn text(length: usize) -> SharedValue {
        SharedValue::text("x".repeat(length))
    }

    #[rstest]
    #[case::prefix("startsWith", &[text(1000), text(15)], 100)]
    #[case::equality_of_numbers("_==_", &[SharedValue::new(CelInt::from(1)), SharedValue::new(CelInt::from(2))], 1)]
    #[case::equality_of_lists("_==_", &[ints(100), ints(30)], 3)]
    #[case::membership("@in", &[SharedValue::new(CelInt::from(1)), ints(7)], 7)]
    #[case::pattern("matches", &[text(99), text(8)], 20)]
    #[case::inner_text("contains", &[text(100), text(20)], 20)]
    #[case::concatenation("_+_", &[text(100), text(20)], 12)]
    #[case::sum("sum", &[ints(12)], 12)]
    #[case::other("getPort", &[text(100)], 1)]
    fn calls(#[case] function: &str, #[case] args: &[SharedValue], #[case] expected: u64) {
        assert_eq!(call_cost(function, args), expected);
    }

    #[rstest]
    #[case("replace", &[text(1 << 20), text(0), text(1 << 20)])]
    #[case("lists.range", &[SharedValue::new(CelInt::from(i64::MAX / 16))])]
    fn results_that_fill_the_memory_are_not_made(#[case] function: &str, #[case] args: &[SharedValue]) {
        assert_eq!(CostMeter::default().call(function, args), Err(LimitExceeded));
    }
}
