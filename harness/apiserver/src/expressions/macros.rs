//! Macros with two variables: `all`, `exists`, `existsOne`, `transformList`, `transformMap` and `transformMapEntry`.
//! They expand as those of `github.com/google/cel-go/ext/comprehensions.go`.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env};

/// The variable of a comprehension that holds its result.
const RESULT: &str = "@result";

/// The function that adds entries to a map.
pub(super) const MAP_INSERT: &str = "@mapInsert";

type Arguments<'a> = &'a mut Vec<IdedExpr>;
type Helper<'a> = MacroExprHelper<'a>;

/// Makes a loop from the first variable and the arguments after the variables.
type Expand = fn(&mut Helper<'_>, &str, Vec<IdedExpr>) -> Loop;

/// A comprehension of two variables without its range and variables.
struct Loop {
    begin: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

/// Adds the macros to an environment.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let macros: [(&str, usize, Expand); 10] = [
        ("all", 3, |helper, _, rest| logical(helper, rest, true)),
        ("exists", 3, |helper, _, rest| logical(helper, rest, false)),
        ("existsOne", 3, exists_one),
        ("exists_one", 3, exists_one),
        ("transformList", 3, transform_list),
        ("transformList", 4, transform_list),
        ("transformMap", 3, transform_map),
        ("transformMap", 4, transform_map),
        ("transformMapEntry", 3, transform_map_entry),
        ("transformMapEntry", 4, transform_map_entry),
    ];
    for (name, arguments, expand) in macros {
        env.add_macro(Macro::receiver(name, arguments, move |helper, target, args| {
            comprehension(helper, target, args, expand)
        }))?;
    }
    Ok(())
}

fn comprehension(
    helper: &mut Helper<'_>,
    target: &mut Option<IdedExpr>,
    args: Arguments<'_>,
    expand: Expand,
) -> Result<Option<IdedExpr>, ParseError> {
    let Some(range) = target.take() else { return Ok(None) };
    let mut args = std::mem::take(args).into_iter();
    let first = variable(helper, args.next())?;
    let second = variable(helper, args.next())?;
    let parts = expand(helper, &first, args.collect());
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: RESULT.to_owned(),
        accu_init: parts.begin,
        loop_cond: parts.condition,
        loop_step: parts.step,
        result: parts.result,
    })))))
}

fn variable(helper: &mut Helper<'_>, argument: Option<IdedExpr>) -> Result<String, ParseError> {
    match argument {
        Some(IdedExpr { expr: Expr::Ident(name), .. }) => Ok(name),
        other => {
            let id = other.map_or(0, |other| other.id);
            Err(helper.new_error(id, "argument must be a simple name"))
        }
    }
}

fn result(helper: &mut Helper<'_>) -> IdedExpr {
    helper.next_expr(Expr::Ident(RESULT.to_owned()))
}

fn literal(helper: &mut Helper<'_>, value: LiteralValue) -> IdedExpr {
    helper.next_expr(Expr::Literal(value))
}

fn call(helper: &mut Helper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn logical(helper: &mut Helper<'_>, mut rest: Vec<IdedExpr>, all: bool) -> Loop {
    let begin = literal(helper, LiteralValue::Boolean(all.into()));
    let accumulated = result(helper);
    let open = if all { accumulated } else { call(helper, "!_", vec![accumulated]) };
    let condition = call(helper, "@not_strictly_false", vec![open]);
    rest.insert(0, result(helper));
    let step = call(helper, if all { "_&&_" } else { "_||_" }, rest);
    Loop { begin, condition, step, result: result(helper) }
}

fn exists_one(helper: &mut Helper<'_>, _first: &str, mut rest: Vec<IdedExpr>) -> Loop {
    let begin = literal(helper, LiteralValue::Int(0.into()));
    let condition = literal(helper, LiteralValue::Boolean(true.into()));
    let sum = vec![result(helper), literal(helper, LiteralValue::Int(1.into()))];
    rest.push(call(helper, "_+_", sum));
    rest.push(result(helper));
    let step = call(helper, "_?_:_", rest);
    let both = vec![result(helper), literal(helper, LiteralValue::Int(1.into()))];
    let equal = call(helper, "_==_", both);
    Loop { begin, condition, step, result: equal }
}

/// Returns a loop that replaces the result by `step`, if the filter is true.
fn transform(helper: &mut Helper<'_>, begin: IdedExpr, filter: Option<IdedExpr>, step: IdedExpr) -> Loop {
    let condition = literal(helper, LiteralValue::Boolean(true.into()));
    let step = match filter {
        None => step,
        Some(filter) => {
            let unchanged = result(helper);
            call(helper, "_?_:_", vec![filter, step, unchanged])
        }
    };
    Loop { begin, condition, step, result: result(helper) }
}

/// Splits the arguments after the variables into the filter and the transformation.
fn split(helper: &mut Helper<'_>, mut rest: Vec<IdedExpr>) -> (Option<IdedExpr>, IdedExpr) {
    let last = rest.pop().unwrap_or_else(|| helper.next_expr(Expr::Unspecified));
    (rest.pop(), last)
}

fn transform_list(helper: &mut Helper<'_>, _first: &str, rest: Vec<IdedExpr>) -> Loop {
    let (filter, item) = split(helper, rest);
    let begin = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let sum = vec![result(helper), helper.next_expr(Expr::List(ListExpr::new(vec![item])))];
    let step = call(helper, "_+_", sum);
    transform(helper, begin, filter, step)
}

fn transform_map(helper: &mut Helper<'_>, first: &str, rest: Vec<IdedExpr>) -> Loop {
    let (filter, value) = split(helper, rest);
    let key = helper.next_expr(Expr::Ident(first.to_owned()));
    transform_entries(helper, filter, vec![key, value])
}

fn transform_map_entry(helper: &mut Helper<'_>, _first: &str, rest: Vec<IdedExpr>) -> Loop {
    let (filter, entries) = split(helper, rest);
    transform_entries(helper, filter, vec![entries])
}

fn transform_entries(helper: &mut Helper<'_>, filter: Option<IdedExpr>, mut inserted: Vec<IdedExpr>) -> Loop {
    let begin = helper.next_expr(Expr::Map(MapExpr { entries: Vec::new() }));
    inserted.insert(0, result(helper));
    let step = call(helper, MAP_INSERT, inserted);
    transform(helper, begin, filter, step)
}
