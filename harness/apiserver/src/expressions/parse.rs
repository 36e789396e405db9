//! Parses expressions, within limits. The parser of the crate `cel` and all walks over an expression are recursive, so
//! that long and deep expressions need a stack of their own.

use std::thread;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::program::Program;
use super::{check, library};

/// Longest expression: cel-go's `expressionSizeCodePointLimit`.
const MAX_CHARACTERS: usize = 100_000;

/// Most characters that begin operators and nested expressions.
const MAX_OPERATORS: usize = 10_000;

/// Most expressions in brackets, arguments and branches of conditions inside one another: `maxRecursionDepth` of
/// cel-go's parser, less the outermost.
const MAX_PARSER_NESTING: u16 = 249;

/// Most levels that cel-go's visitor enters: operators, fields, indexes and calls with a receiver.
const MAX_LEVELS: usize = 250;

/// Deepest expression after macros were expanded.
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
    /// Too many operators, fields or calls are applied to one another.
    #[error("ERROR: <input>:-1:0: max recursion depth exceeded")]
    Levels,
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
        return Err(ParseError::Levels);
    }
    let parsed = on_large_stack(|| {
        let parser = library::ENV.parser().max_recursion_depth(MAX_PARSER_NESTING);
        let (expression, source_info) = parser.parse_with_source_info(source).map_err(|errors| {
            if errors.errors.iter().any(|error| error.to_string().contains("Recursion limit")) {
                return ParseError::Depth;
            }
            let has_others = errors.errors.iter().any(|error| !is_about_the_rest(&error.msg));
            let shown = errors.errors.iter().filter(|error| !has_others || !is_about_the_rest(&error.msg));
            let texts = shown.map(|error| {
                let (line, column) = error.pos;
                let line = usize::try_from(line).unwrap_or(1).max(1) - 1;
                let before: usize = source.split_inclusive('\n').take(line).map(|text| text.chars().count()).sum();
                let offset = before + usize::try_from(column).unwrap_or(1).max(1) - 1;
                let message = of_expected(source, offset, &of_literal(&of_reserved_word(&error.msg)));
                check::format_error(source, offset, &message)
            });
            ParseError::Syntax(texts.collect::<Vec<_>>().join("\n"))
        })?;
        let depth = depth(&expression);
        // Too deep an expression is dropped here, which is recursive as well.
        if depth > MAX_EXPRESSION_DEPTH || levels(&expression) > MAX_LEVELS {
            Err(ParseError::Levels)
        } else {
            let program = Program::new(expression, source_info);
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

/// Returns true for an error of the parser about what follows from a syntax error, which cel-go does not report.
fn is_about_the_rest(message: &str) -> bool {
    message.ends_with('!') && (message.starts_with("Incomplete ") || message.starts_with("No `"))
}

/// Returns the message about a literal that cannot be read: cel-go's `parser/unescape.go`.
fn of_literal(message: &str) -> String {
    let literal =
        ["string", "bytes"].into_iter().find_map(|kind| message.strip_prefix(&format!("invalid {kind} literal: ")));
    match literal {
        Some(error) if error.starts_with("InvalidUnicode") => "invalid unicode code point".to_owned(),
        Some(error) if error.starts_with("InvalidOctal") => "unable to unescape octal sequence in string".to_owned(),
        Some(_) => "unable to unescape string".to_owned(),
        None => message.to_owned(),
    }
}

/// Tokens that can follow every complete expression; the question mark can do so only outside of a condition.
const CONTINUATIONS: [&str; 17] = [
    "'=='", "'!='", "'in'", "'<'", "'<='", "'>='", "'>'", "'&&'", "'||'", "'['", "'.'", "'-'", "'?'", "'+'", "'*'",
    "'/'", "'%'",
];

/// Returns a message about an unexpected token as Go's runtime of ANTLR has it, which has left the rules of operators
/// when it reports: of the expected tokens, those that continue the expression are missing.
fn of_expected(source: &str, offset: usize, message: &str) -> String {
    let Some((what, expected)) = message.split_once(" expecting {") else { return message.to_owned() };
    let expected: Vec<&str> = expected.trim_end_matches('}').split(", ").collect();
    if !what.contains("mismatched input") || !CONTINUATIONS.iter().all(|one| *one == "'?'" || expected.contains(one)) {
        return message.to_owned();
    }
    let ends: Vec<&str> = expected.into_iter().filter(|one| !CONTINUATIONS.contains(one)).collect();
    match &ends[..] {
        _ if !is_in_brackets(source, offset) => format!("{what} expecting <EOF>"),
        [only] => format!("{what} expecting {only}"),
        _ => format!("{what} expecting {{{}}}", ends.join(", ")),
    }
}

/// Returns true if a bracket or a condition is open at this character.
fn is_in_brackets(source: &str, offset: usize) -> bool {
    let mut open = Vec::new();
    let mut quote = None;
    let mut is_escaped = false;
    for letter in source.chars().take(offset) {
        match (quote, letter) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(mark), letter) if mark == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[' | '{' | '?') => open.push(letter),
            // A colon ends a condition, or belongs to a map.
            (None, ':') => _ = open.pop_if(|last| *last == '?'),
            (None, ')' | ']' | '}') => _ = open.pop(),
            _ => {}
        }
    }
    !open.is_empty()
}

/// Calls a function on a thread with a large stack and waits for it.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        started.ok()?.join().ok()
    })
}

/// Returns the number of levels that cel-go's visitor enters (`Visit` of `parser.go`). Macros were expanded, but their
/// own operators do not count.
fn levels(expression: &IdedExpr) -> usize {
    const OPERATORS: [&str; 15] = [
        "_?_:_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_+_", "_-_", "_*_", "_/_", "_%_", "_[_]",
        "_[?_]",
    ];
    let mut deepest = 0;
    let mut open = vec![(expression, 0)];
    while let Some((one, outside)) = open.pop() {
        let own = match &one.expr {
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                call.target.is_some() || name == "_?._" || OPERATORS.contains(&name)
            }
            Expr::Select(_) | Expr::Comprehension(_) => true,
            _ => false,
        };
        let level = outside + usize::from(own);
        deepest = deepest.max(level);
        open.extend(written_parts(one).into_iter().map(|part| (part, level)));
    }
    deepest
}

/// Returns the parts of an expression that were written in its text.
fn written_parts(of: &IdedExpr) -> Vec<&IdedExpr> {
    match &of.expr {
        Expr::Comprehension(parts) => {
            let mut written = written_step(&parts.loop_step);
            written.push(&parts.iter_range);
            written
        }
        _ => parts(of),
    }
}

/// Returns what was written of the step of a macro's loop, such as the condition and the item of
/// `condition ? result + [item] : result`.
fn written_step(step: &IdedExpr) -> Vec<&IdedExpr> {
    match &step.expr {
        Expr::Call(call) if call.func_name == "_?_:_" && call.args.len() == 3 => {
            let mut written = written_step(&call.args[1]);
            written.push(&call.args[0]);
            written
        }
        Expr::Call(call) if call.func_name == "_+_" => call.args.last().map(parts).unwrap_or_default(),
        _ => vec![step],
    }
}

/// Returns the number of levels of an expression.
fn depth(expression: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(expression, 1)];
    while let Some((one, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(parts(one).into_iter().map(|inner| (inner, level + 1)));
    }
    deepest
}

/// Returns the direct parts of an expression.
fn parts(of: &IdedExpr) -> Vec<&IdedExpr> {
    fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
        match entry {
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            EntryExpr::StructField(field) => vec![&field.value],
        }
    }
    match &of.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Struct(of) => of.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Comprehension(parts) => {
            vec![&parts.iter_range, &parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result]
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}
