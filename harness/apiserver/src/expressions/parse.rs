//! Parses expressions, within limits. The parser of the crate `cel` and all walks over an expression are recursive, so
//! that long and deep expressions need a stack of their own.

use std::thread;

use cel::Program;
use cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::{check, library};

/// Longest expression: cel-go's `expressionSizeCodePointLimit`.
const MAX_CHARACTERS: usize = 100_000;

/// Most characters that begin operators and nested expressions.
const MAX_OPERATORS: usize = 10_000;

/// Deepest expression. cel-go counts the levels of each rule of the grammar separately, up to the number in the
/// message.
const MAX_DEPTH: usize = 1_000;
const RECURSION_LIMIT: &str = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";

/// Depth from which an expression is walked on a stack of its own.
const DEEP: usize = 30;

/// Bytes of the stack, of which only used pages take memory.
const STACK: usize = 256 << 20;

/// An expression.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) program: Program,
    deep: bool,
}

impl Expression {
    /// Calls a function that walks the expression, where there is room for it. `None` if no thread can be started.
    pub(crate) fn walk<T: Send>(&self, walk: impl FnOnce(&Program) -> T + Send) -> Option<T> {
        if self.deep { on_large_stack(|| walk(&self.program)) } else { Some(walk(&self.program)) }
    }
}

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<Expression, String> {
    let size = source.chars().count();
    if size > MAX_CHARACTERS {
        let why = format!("expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}");
        return Err(format!("ERROR: <input>:-1:0: {why}"));
    }
    if source.bytes().filter(|byte| b".+-*/%<=>!([{?".contains(byte)).count() > MAX_OPERATORS {
        return Err(RECURSION_LIMIT.to_owned());
    }
    let parsed = on_large_stack(|| {
        let program = library::ENV.compile(source).map_err(|errors| {
            let texts = errors.errors.iter().map(|error| {
                let (line, column) = error.pos;
                let line = usize::try_from(line).unwrap_or(1).max(1) - 1;
                let before: usize = source.split_inclusive('\n').take(line).map(|text| text.chars().count()).sum();
                let offset = before + usize::try_from(column).unwrap_or(1).max(1) - 1;
                check::format_error(source, offset, &error.msg)
            });
            texts.collect::<Vec<_>>().join("\n")
        })?;
        let depth = depth(program.expression());
        // Too deep an expression is dropped here, which is recursive as well.
        if depth > MAX_DEPTH { Err(RECURSION_LIMIT.to_owned()) } else { Ok(Expression { program, deep: depth > DEEP }) }
    });
    parsed.unwrap_or_else(|| Err("unable to start a thread that parses the expression".to_owned()))
}

/// Calls a function on a thread with a large stack and waits for it.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        started.ok()?.join().ok()
    })
}

/// Returns the number of levels of an expression.
fn depth(expression: &IdedExpr) -> usize {
    let (mut deepest, mut open) = (0, vec![(expression, 1)]);
    while let Some((one, level)) = open.pop() {
        deepest = deepest.max(level);
        let mut add = |inner| open.push((inner, level + 1));
        match &one.expr {
            Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(add),
            Expr::Select(select) => add(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(add),
            Expr::Map(map) => map.entries.iter().for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut add),
                EntryExpr::StructField(field) => add(&field.value),
            }),
            Expr::Struct(of) => of.entries.iter().for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut add),
                EntryExpr::StructField(field) => add(&field.value),
            }),
            Expr::Comprehension(parts) => {
                let all = [&parts.iter_range, &parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result];
                all.into_iter().for_each(add);
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
    deepest
}
