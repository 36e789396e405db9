//! Estimates what an expression costs at most, for definitions whose rules would be too expensive. Follows
//! `checker/cost.go` of cel-go function by function, because the estimates of accepted definitions depend on its
//! details, and `sizeEstimator` in `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`
//! of Kubernetes 1.36. PURE.
//!
//! - `calls`: the costs of functions
//! - `paths`, `range`: the paths and numbers of the estimates
//! - `limits`: limits and their errors

mod calls;
mod limits;
mod paths;
mod range;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::sizes::SizedType;
use super::types::CelType;
pub(crate) use limits::{EXPRESSION_LIMIT, SchemaCost, exceeded};
use paths::{AstPath, Paths};
use range::{EntrySizes, Range};

/// The accumulator of comprehensions that are no bindings: `AccumulatorName` of cel-go's parser.
const ACCUMULATOR: &str = "@result";

/// The variable to which the crate `cel` binds the value whose `optMap` is asked for.
const OPTIONAL_TARGET: &str = "@target";

/// Returns the largest cost of an expression with the types of its parts, by identifier.
pub(crate) fn estimate(expression: &IdedExpr, types: &BTreeMap<u64, CelType>, root: &SizedType) -> u64 {
    Estimator {
        types,
        root,
        scope: Vec::new(),
        paths: Paths::default(),
        path_of: BTreeMap::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
    }
    .cost(expression)
    .most
}

/// A variable of a comprehension: `localVar`.
#[derive(Debug, Clone, Copy)]
struct Local {
    path: Option<AstPath>,
    size: Option<Range>,
    entries: Option<EntrySizes>,
}

/// A part of an expression with what is known about its value: `AstNode`.
#[derive(Debug, Clone)]
struct AstNode<'a> {
    /// `None` for the items of a list.
    expression: Option<&'a IdedExpr>,
    path: Option<AstPath>,
    ty: CelType,
    size: Option<Range>,
}

impl AstNode<'_> {
    fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

/// The state of an estimate: `coster`.
struct Estimator<'a> {
    types: &'a BTreeMap<u64, CelType>,
    root: &'a SizedType,
    scope: Vec<(&'a str, Local)>,
    paths: Paths,
    path_of: BTreeMap<u64, AstPath>,
    sizes: BTreeMap<u64, Range>,
    entries: BTreeMap<u64, EntrySizes>,
}

impl<'a> Estimator<'a> {
    fn type_of(&self, expression: &IdedExpr) -> CelType {
        self.types.get(&expression.id).cloned().unwrap_or(CelType::Dyn)
    }

    fn local(&self, expression: &IdedExpr) -> Option<Local> {
        let Expr::Ident(name) = &expression.expr else { return None };
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, local)| *local)
    }

    fn path(&self, expression: &IdedExpr) -> Option<AstPath> {
        match self.local(expression) {
            Some(local) => local.path,
            None => self.path_of.get(&expression.id).copied(),
        }
    }

    fn set_path(&mut self, expression: &IdedExpr, path: Option<AstPath>) {
        match path {
            Some(path) => self.path_of.insert(expression.id, path),
            None => self.path_of.remove(&expression.id),
        };
    }

    /// Appends a step to the path of an expression.
    fn below(&mut self, expression: &IdedExpr, step: &str) -> AstPath {
        let path = self.path(expression);
        self.paths.append(path, step)
    }

    fn node(&mut self, expression: &'a IdedExpr) -> AstNode<'a> {
        let path = self.path(expression);
        AstNode { expression: Some(expression), path, ty: self.type_of(expression), size: self.size(expression) }
    }

    /// Returns the size of a value: `computeSize`.
    fn size(&mut self, expression: &IdedExpr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expression.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expression) {
            return Some(size);
        }
        if let Some(size) = self.size_by_path(self.path(expression)) {
            self.sizes.insert(expression.id, size);
            return Some(size);
        }
        if is_scalar(&self.type_of(expression)) {
            return Some(Range::exactly(1));
        }
        self.local(expression).and_then(|local| local.size)
    }

    /// Returns the size of what a path leads to: `EstimateSize` of apiextensions-apiserver. The first step counts as
    /// the root, whichever it is.
    fn size_by_path(&self, path: Option<AstPath>) -> Option<Range> {
        let mut found = self.root;
        for step in &self.paths.steps(path?)[1..] {
            found = match step.as_str() {
                "@items" | "@values" => found.element.as_deref()?,
                // Keys are of the type `StringType`, whose `MaxElements` is 0.
                "@keys" => return found.is_map.then_some(Range::default()),
                field => found.fields.get(field)?,
            };
        }
        Some(Range { least: 0, most: found.most })
    }

    fn size_or_unknown(&mut self, expression: &IdedExpr) -> Range {
        self.size(expression).unwrap_or(Range::UNKNOWN)
    }

    fn set_size(&mut self, expression: &IdedExpr, size: Option<Range>) {
        self.sizes.extend(size.map(|size| (expression.id, size)));
    }

    /// Returns the sizes of a container's entries: `computeEntrySize`.
    fn entry_sizes(&self, expression: &IdedExpr) -> Option<EntrySizes> {
        let own = self.entries.get(&expression.id).copied();
        own.or_else(|| self.local(expression).and_then(|local| local.entries))
    }

    fn set_entry_sizes(&mut self, expression: &IdedExpr, sizes: Option<EntrySizes>) {
        self.entries.extend(sizes.map(|sizes| (expression.id, sizes)));
    }

    fn copy_sizes(&mut self, to: &IdedExpr, from: &IdedExpr) {
        let size = self.size(from);
        self.set_size(to, size);
        self.set_entry_sizes(to, self.entry_sizes(from));
    }

    fn cost(&mut self, expression: &'a IdedExpr) -> Range {
        match &expression.expr {
            Expr::Literal(_) | Expr::Unspecified => Range::default(),
            Expr::Ident(name) => {
                let path = match self.local(expression) {
                    Some(local) => local.path,
                    None => Some(self.paths.variable(name)),
                };
                self.set_path(expression, path);
                Range::exactly(1)
            }
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let mut cost = Range::exactly(10);
                let mut value = None;
                for element in &list.elements {
                    cost = cost.plus(self.cost(element));
                    widen(&mut value, self.size_or_unknown(element));
                }
                let value = value.unwrap_or_default();
                self.entries.insert(expression.id, EntrySizes { is_list: true, key: Range::exactly(1), value });
                cost
            }
            Expr::Map(map) => {
                let mut cost = Range::exactly(30);
                let mut key = None;
                let mut value = None;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    widen(&mut key, self.size_or_unknown(&entry.key));
                    widen(&mut value, self.size_or_unknown(&entry.value));
                }
                let sizes =
                    EntrySizes { is_list: false, key: key.unwrap_or_default(), value: value.unwrap_or_default() };
                self.entries.insert(expression.id, sizes);
                cost
            }
            Expr::Struct(message) => {
                let mut cost = Range::exactly(40);
                for entry in &message.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        cost = cost.plus(self.cost(&field.value));
                    }
                }
                cost
            }
            Expr::Comprehension(parts) if is_binding(parts) => self.binding(expression, parts),
            Expr::Comprehension(parts) => self.comprehension(expression, parts),
        }
    }

    fn select(&mut self, expression: &'a IdedExpr, select: &'a SelectExpr) -> Range {
        let operand = self.cost(&select.operand);
        // Kubernetes sets `PresenceTestHasCost(false)`.
        if select.test {
            return operand;
        }
        let counts = matches!(self.type_of(&select.operand), CelType::Map(..) | CelType::Object(_));
        let path = self.below(&select.operand, &select.field);
        self.set_path(expression, Some(path));
        operand.plus(Range::exactly(u64::from(counts)))
    }

    fn comprehension(&mut self, expression: &'a IdedExpr, parts: &'a ComprehensionExpr) -> Range {
        let mut cost = self.cost(&parts.iter_range).plus(self.cost(&parts.accu_init));
        let outer = self.scope.len();
        self.push(&parts.accu_var, &parts.accu_init);
        let sizes = self.entry_sizes(&parts.iter_range);
        let is_list = match sizes {
            Some(sizes) => sizes.is_list,
            None => matches!(self.type_of(&parts.iter_range), CelType::List(_)),
        };
        let (key, value) = if is_list { ("@indices", "@items") } else { ("@keys", "@values") };
        let steps = match &parts.iter_var2 {
            Some(second) => vec![(parts.iter_var.as_str(), key), (second.as_str(), value)],
            None => vec![(parts.iter_var.as_str(), if is_list { value } else { key })],
        };
        for (name, step) in steps {
            let path = Some(self.below(&parts.iter_range, step));
            let size = sizes.map(|sizes| if step == value { sizes.value } else { sizes.key });
            self.scope.push((name, Local { path, size, entries: None }));
        }
        let condition = self.cost(&parts.loop_cond);
        let step = self.cost(&parts.loop_step);
        self.scope.truncate(outer + 1);
        cost = cost.plus(self.cost(&parts.result));
        self.scope.truncate(outer);
        let count = self.size_or_unknown(&parts.iter_range);
        cost = cost.plus(count.times(step.plus(condition)));
        match &parts.accu_init.expr {
            Expr::Literal(_) => {
                let size = self.size(&parts.accu_init);
                self.set_size(expression, size);
            }
            Expr::List(_) | Expr::Map(_) => {
                self.set_size(expression, Some(count));
                self.set_entry_sizes(expression, self.entry_sizes(&parts.loop_step));
            }
            _ => {}
        }
        cost
    }

    /// Estimates a variable's definition with the expression that uses it: `costBind`.
    fn binding(&mut self, expression: &'a IdedExpr, parts: &'a ComprehensionExpr) -> Range {
        let range = self.cost(&parts.iter_range);
        let value = self.cost(&parts.accu_init);
        self.push(&parts.accu_var, &parts.accu_init);
        let result = self.cost(&parts.result);
        self.scope.pop();
        let cost = if parts.accu_var == OPTIONAL_TARGET {
            // The crate binds what cel-go has twice.
            let twice = Range::exactly(2);
            let rest =
                Range { least: result.least.saturating_sub(twice.least), most: result.most.saturating_sub(twice.most) };
            value.times(twice).plus(rest)
        } else {
            range.plus(value).plus(result)
        };
        self.copy_sizes(expression, &parts.result);
        cost
    }

    /// Adds a variable with the value of an expression.
    fn push(&mut self, name: &'a str, value: &'a IdedExpr) {
        let local = Local { path: self.path(value), entries: self.entry_sizes(value), size: self.size(value) };
        self.scope.push((name, local));
    }

    fn call(&mut self, expression: &'a IdedExpr, call: &'a CallExpr) -> Range {
        if let ("dyn", [arg]) = (call.func_name.as_str(), call.args.as_slice()) {
            let cost = self.cost(arg).plus(Range::exactly(1));
            self.copy_sizes(expression, arg);
            return cost;
        }
        let mut args = Vec::new();
        for arg in &call.args {
            let cost = self.cost(arg);
            args.push((cost, self.node(arg)));
        }
        // The type check records no type for the namespace of a function, such as `sets`.
        let target = call.target.as_deref().filter(|target| self.types.contains_key(&target.id));
        let of_target = target.map_or_else(Range::default, |target| self.cost(target));
        let target = target.map(|target| self.node(target));
        let name = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(namespace)) if target.is_none() => &*format!("{namespace}.{}", call.func_name),
            _ => &call.func_name,
        };
        of_target.plus(self.function(expression, name, target.as_ref(), &args))
    }
}

/// Adds a size to those of other entries; `None` before the first.
fn widen(known: &mut Option<Range>, size: Range) {
    *known = Some(known.map_or(size, |known| known.union(size)));
}

/// Returns true for the definition of a variable: an empty range, of which nothing is evaluated.
fn is_binding(parts: &ComprehensionExpr) -> bool {
    matches!(&parts.iter_range.expr, Expr::List(list) if list.elements.is_empty())
        && matches!(&parts.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(flag)) if !flag.inner())
        && parts.accu_var != ACCUMULATOR
}

/// Returns the size that an expression itself says: `computeExprSize`.
fn literal_size(expression: &IdedExpr) -> Option<Range> {
    let size = match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => return None,
    };
    Some(Range::count(size))
}

fn is_scalar(ty: &CelType) -> bool {
    match ty {
        CelType::Bool | CelType::Double | CelType::Duration | CelType::Int | CelType::Timestamp | CelType::Uint => true,
        CelType::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
