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
const MAX_EXPRESSION_DEPTH: usize = 1_000;

/// Reasons why a text is no expression, in the words of cel-go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    /// The text is too long.
    #[error("ERROR: <input>:-1:0: expression code point size exceeds limit: size: {0}, limit {MAX_CHARACTERS}")]
    Size(usize),
    /// The expression is nested too deeply.
    #[error("ERROR: <input>:-1:0: expression recursion limit exceeded: 250")]
    Depth,
    /// The text does not follow the grammar.
    #[error("{0}")]
    Syntax(String),
    /// There is no stack that is large enough.
    #[error("unable to start a thread that parses the expression")]
    NoThread,
}

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
pub(crate) fn parse(source: &str) -> Result<Expression, ParseError> {
    let size = source.chars().count();
    if size > MAX_CHARACTERS {
        return Err(ParseError::Size(size));
    }
    if source.bytes().filter(|byte| b".+-*/%<=>!([{?".contains(byte)).count() > MAX_OPERATORS {
        return Err(ParseError::Depth);
    }
    let parsed = on_large_stack(|| {
        let program = library::ENV.compile(source).map_err(|errors| {
            let texts = errors.errors.iter().map(|error| {
                let (line, column) = error.pos;
                let line = usize::try_from(line).unwrap_or(1).max(1) - 1;
                let before: usize = source.split_inclusive('\n').take(line).map(|text| text.chars().count()).sum();
                let offset = before + usize::try_from(column).unwrap_or(1).max(1) - 1;
                check::format_error(source, offset, &of_reserved_word(&error.msg))
            });
            ParseError::Syntax(texts.collect::<Vec<_>>().join("\n"))
        })?;
        let depth = depth(program.expression());
        // Too deep an expression is dropped here, which is recursive as well.
        if depth > MAX_EXPRESSION_DEPTH {
            Err(ParseError::Depth)
        } else {
            Ok(Expression { program, deep: depth > DEEP })
        }
    });
    parsed.unwrap_or(Err(ParseError::NoThread))
}

/// Returns the message about a reserved word in place of a field: `SyntaxError` of cel-go's `parser/parser.go`.
fn of_reserved_word(message: &str) -> String {
    ["true", "false", "null"].into_iter().fold(message.to_owned(), |message, word| {
        let from = format!("no viable alternative at input '.{word}'");
        message.replace(&from, &format!("mismatched input '{word}' expecting IDENTIFIER"))
    })
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
    let mut deepest = 0;
    let mut open = vec![(expression, 1)];
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
