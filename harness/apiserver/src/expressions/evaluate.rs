//! Evaluates expressions and counts what it costs, so that an evaluation ends. PURE.
//!
//! The crate `cel` parses expressions and has the values and functions. Its own interpreter has no limits, so that the
//! walk over the expression is here. Follows `interpreter/interpretable.go` of cel-go.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr, StructExpr,
};
use cel::common::types::{CelDuration, CelInt, CelMapKey, CelString, CelTimestamp, CelType};
use cel::common::value::{CowVal, Val};
use cel::{Context, Env, ExecutionError, Value as CelValue};
use regex::Regex;

use super::authorizer;
use super::check::qualified_type;
use super::compile_error::CompileError;
use super::compile_error::NO_THREAD;
use super::convert::rfc3339_nano;
use super::cost::{self, CostMeter, LimitExceeded};
use super::library;
use super::macros::MAP_INSERT;
use super::program::Program;
use super::shared::SharedValue;
use super::string_format::formatted;
use super::types::escape_reserved;
use crate::go_duration::go_duration;
use crate::go_regex::{GoRegexError, go_regex};

/// Largest compiled regular expression in bytes.
const REGEX_BYTES: usize = 1 << 20;

/// Names under which the arguments of a method call are handed to the crate; expressions cannot contain them.
const ARGUMENTS: [&str; 6] = ["@0", "@1", "@2", "@3", "@4", "@5"];

/// The reason why an evaluation has no value.
#[derive(Debug)]
pub(crate) enum EvaluationError {
    /// The cost exceeds the limit; nothing else is evaluated.
    Limit,
    /// An error that operators such as `||` may still replace by a value.
    Failed(ExecutionError),
}

impl From<LimitExceeded> for EvaluationError {
    fn from(_: LimitExceeded) -> Self {
        Self::Limit
    }
}

impl From<ExecutionError> for EvaluationError {
    fn from(error: ExecutionError) -> Self {
        Self::Failed(error)
    }
}

/// The result of an evaluation.
pub(crate) type Evaluated = Result<SharedValue, EvaluationError>;

/// The error of a variable of a policy, in upstream's words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("composited variable {name:?} fails to {}", .why)]
pub(crate) struct VariableError {
    pub(crate) name: String,
    pub(crate) why: VariableFault,
}

/// Reasons why a variable has no value.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum VariableFault {
    #[error("compile: {0}")]
    Compilation(CompileError),
    #[error("evaluate: nested too deeply")]
    Nesting,
    #[error("evaluate: refers to itself")]
    Recursion,
    #[error("evaluate: {NO_THREAD}")]
    NoThread,
    #[error("evaluate: {0}")]
    Evaluation(String),
}

/// The fields of the variable `variables`, which are computed when an expression first reads them.
pub(crate) trait LazyFields: Send {
    /// Returns a field, or why it has no value; `None` if there is no such field.
    fn field(&mut self, name: &str) -> Option<Result<SharedValue, VariableError>>;
}

/// The name of the variable with lazy fields.
pub(crate) const LAZY: &str = "variables";

/// Evaluates a program; returns its value and its cost.
pub(crate) fn evaluate(program: &Program, env: &Arc<Env>, variables: Vec<(&str, SharedValue)>) -> (Evaluated, u64) {
    evaluate_with(program, env, variables, None)
}

/// Like [`evaluate`], with a variable whose fields are lazy.
pub(crate) fn evaluate_with<'a>(
    program: &'a Program,
    env: &'a Arc<Env>,
    variables: Vec<(&'a str, SharedValue)>,
    lazy: Option<&'a mut dyn LazyFields>,
) -> (Evaluated, u64) {
    let meter = CostMeter::default();
    let mut evaluation = Evaluation { env, scope: variables, meter, patterns: BTreeMap::new(), lazy };
    let value = evaluation.value(program.expression());
    (value, evaluation.meter.cost())
}

struct Evaluation<'a> {
    env: &'a Arc<Env>,
    lazy: Option<&'a mut dyn LazyFields>,
    /// The variables, innermost last.
    scope: Vec<(&'a str, SharedValue)>,
    meter: CostMeter,
    /// The compiled regular expressions.
    patterns: BTreeMap<String, Regex>,
}

/// A loop step that is `@result && x` or `@result || x`: a later element can replace an error.
fn is_logical(comprehension: &ComprehensionExpr) -> Option<bool> {
    let Expr::Call(call) = &comprehension.loop_step.expr else { return None };
    let folds =
        matches!(call.args.first().map(|arg| &arg.expr), Some(Expr::Ident(name)) if *name == comprehension.accu_var);
    match call.func_name.as_str() {
        "_&&_" if folds => Some(false),
        "_||_" if folds => Some(true),
        _ => None,
    }
}

/// The loop step of `map` and `filter`: the list is extended, if there is no condition or if it is true.
struct AppendStep<'a> {
    condition: Option<&'a IdedExpr>,
    items: &'a ListExpr,
}

impl<'a> AppendStep<'a> {
    fn of(comprehension: &'a ComprehensionExpr) -> Option<Self> {
        let is_result =
            |expression: &IdedExpr| matches!(&expression.expr, Expr::Ident(name) if *name == comprehension.accu_var);
        let items = |expression: &'a IdedExpr| match arguments(expression, "_+_")? {
            [list, IdedExpr { expr: Expr::List(items), .. }]
                if is_result(list) && items.optional_indices.is_empty() =>
            {
                Some(items)
            }
            _ => None,
        };
        let empty = matches!(&comprehension.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        if !empty || !is_result(&comprehension.result) || !matches!(comprehension.loop_cond.expr, Expr::Literal(_)) {
            return None;
        }
        match arguments(&comprehension.loop_step, "_?_:_") {
            Some([condition, step, otherwise]) if is_result(otherwise) => {
                Some(Self { condition: Some(condition), items: items(step)? })
            }
            Some(_) => None,
            None => Some(Self { condition: None, items: items(&comprehension.loop_step)? }),
        }
    }
}

/// The loop step of `transformMap` and `transformMapEntry`: the map gets entries, if there is no condition or if it is
/// true.
struct InsertStep<'a> {
    condition: Option<&'a IdedExpr>,
    /// A key and a value, or a map.
    entries: &'a [IdedExpr],
}

impl<'a> InsertStep<'a> {
    fn of(comprehension: &'a ComprehensionExpr) -> Option<Self> {
        let (condition, step) = match arguments(&comprehension.loop_step, "_?_:_") {
            Some([condition, step, _]) => (Some(condition), step),
            _ => (None, &comprehension.loop_step),
        };
        // Only the macros make calls of this name, which no source can contain.
        let [_, entries @ ..] = arguments(step, MAP_INSERT)? else { return None };
        Some(Self { condition, entries })
    }
}

/// Returns the arguments of a call of a global function.
fn arguments<'a>(expression: &'a IdedExpr, name: &str) -> Option<&'a [IdedExpr]> {
    match &expression.expr {
        Expr::Call(call) if call.func_name == name && call.target.is_none() => Some(call.args.as_slice()),
        _ => None,
    }
}

fn no_overload(function: &str, args: &[SharedValue]) -> EvaluationError {
    let types = args.iter().map(|arg| arg.get_type().name().to_owned()).collect();
    ExecutionError::no_such_overload(function, types).into()
}

/// Returns true for constants, whose lists cel-go makes before the evaluation.
fn is_constant(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => list.elements.iter().all(is_constant),
        _ => false,
    }
}

impl<'a> Evaluation<'a> {
    fn value(&mut self, expression: &'a IdedExpr) -> Evaluated {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => {
                self.meter.charge(cost::SELECT)?;
                match self.variable(name) {
                    Some(value) => Ok(value.clone()),
                    // The names of types are values.
                    None => Ok(SharedValue::from_result(CelValue::resolve_val(
                        expression,
                        &Context::with_env(self.env.clone()),
                    )?)),
                }
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                if !is_constant(expression) {
                    self.meter.charge(cost::LIST)?;
                }
                self.list(list)
            }
            Expr::Map(map) => {
                self.meter.charge(cost::MAP)?;
                let mut entries = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.value(&entry.key)?;
                    let key = CelMapKey::try_from(CowVal::Borrowed(&key as &dyn Val))?;
                    let value = self.value(&entry.value)?;
                    match (entry.optional, value.as_optional()) {
                        (true, Some(None)) => {}
                        (true, Some(Some(value))) => entries.push((key, value)),
                        _ => entries.push((key, value)),
                    }
                }
                Ok(SharedValue::map(entries))
            }
            Expr::Struct(literal) => self.message(literal),
            Expr::Unspecified => Err(ExecutionError::InternalError("messages are not supported".to_owned()).into()),
        }
    }

    /// Makes a message, as a map of its fields.
    fn message(&mut self, literal: &'a StructExpr) -> Evaluated {
        self.meter.charge(cost::MESSAGE)?;
        let mut fields = Vec::new();
        for entry in &literal.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let value = self.value(&field.value)?;
            let value = match value.as_optional().filter(|_| field.optional) {
                Some(None) => continue,
                Some(Some(content)) => content,
                None => value,
            };
            if literal.type_name.trim_start_matches('.') == "JSONPatch" {
                check_patch_field(&field.field, &value)
                    .map_err(|why| ExecutionError::function_error("JSONPatch", why))?;
            }
            fields.push((CelMapKey::from(field.field.clone()), value));
        }
        Ok(SharedValue::map(fields))
    }

    /// Returns a lazy field; `None` if the operand is not the variable that has them.
    fn lazy_field(&mut self, select: &SelectExpr) -> Option<Evaluated> {
        let is_lazy = matches!(&select.operand.expr, Expr::Ident(name) if name == LAZY);
        if !is_lazy || self.variable(LAZY).is_some() {
            return None;
        }
        let found = self.lazy.as_deref_mut()?.field(&select.field);
        if select.test {
            return Some(Ok(SharedValue::bool(found.is_some())));
        }
        // An identifier and a selection; what the field itself costs counts elsewhere.
        if let Err(exceeded) = self.meter.charge(2 * cost::SELECT) {
            return Some(Err(exceeded.into()));
        }
        Some(match found {
            None => Err(ExecutionError::NoSuchKey(Arc::new(select.field.clone())).into()),
            Some(value) => value.map_err(|error| ExecutionError::function_error(LAZY, error).into()),
        })
    }

    fn variable(&self, name: &str) -> Option<&SharedValue> {
        self.scope.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn list(&mut self, list: &'a ListExpr) -> Evaluated {
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.value(element)?;
            match value.as_optional().filter(|_| list.optional_indices.contains(&index)) {
                None => items.push(value),
                Some(given) => items.extend(given),
            }
        }
        Ok(SharedValue::list(items))
    }

    fn select(&mut self, select: &'a SelectExpr) -> Evaluated {
        if let Some(value) = self.lazy_field(select) {
            return value;
        }
        if let Some(name) = qualified_type(select, |name| self.variable(name).is_some()) {
            self.meter.charge(cost::SELECT)?;
            return Ok(SharedValue::new(CelType::new_static(name)));
        }
        let operand = self.value(&select.operand)?;
        if let Some(check) = authorizer::request_resource(&operand, &select.field) {
            return Ok(check);
        }
        if !select.test {
            self.meter.charge(cost::SELECT)?;
        }
        let key = CelString::from(select.field.clone());
        if let Some(content) = operand.as_optional() {
            let found = content.map(|content| index(&content, &key, "_._")).and_then(Result::ok);
            return Ok(if select.test { SharedValue::bool(found.is_some()) } else { SharedValue::optional(found) });
        }
        match index(&operand, &key, "_._") {
            Ok(_) if select.test => Ok(SharedValue::bool(true)),
            Err(ExecutionError::NoSuchKey(_)) if select.test => Ok(SharedValue::bool(false)),
            found => Ok(found?),
        }
    }

    fn bool(&mut self, expression: &'a IdedExpr, operator: &str) -> Result<bool, EvaluationError> {
        let value = self.value(expression)?;
        value.as_bool().ok_or_else(|| no_overload(operator, &[value]))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("_?_:_", [condition, yes, no]) => {
                let chosen = if self.bool(condition, "_?_:_")? { yes } else { no };
                self.value(chosen)
            }
            (operator @ ("_&&_" | "_||_"), [left, right]) => {
                let absorbing = operator == "_||_";
                let left = match self.bool(left, operator) {
                    Ok(left) if left == absorbing => return Ok(SharedValue::bool(left)),
                    Err(EvaluationError::Limit) => return Err(EvaluationError::Limit),
                    left => left,
                };
                match (left, self.bool(right, operator)) {
                    (_, Err(EvaluationError::Limit)) => Err(EvaluationError::Limit),
                    (Ok(_), Ok(right)) => Ok(SharedValue::bool(right)),
                    (Err(_), Ok(right)) if right == absorbing => Ok(SharedValue::bool(right)),
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                }
            }
            ("@not_strictly_false", [condition]) => {
                self.meter.charge(1)?;
                match self.bool(condition, "@not_strictly_false") {
                    Err(EvaluationError::Limit) => Err(EvaluationError::Limit),
                    value => Ok(SharedValue::bool(value.unwrap_or(true))),
                }
            }
            _ => self.function(call),
        }
    }

    /// Evaluates the arguments of a call, and then the call.
    fn function(&mut self, call: &'a CallExpr) -> Evaluated {
        // A call on a name that is no variable is a call of a qualified function, such as `math.greatest`.
        let namespace = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(name) if self.variable(name).is_none() => Some(name),
            _ => None,
        });
        let qualified = namespace.map(|namespace| format!("{namespace}.{}", call.func_name));
        let name = qualified.as_deref().unwrap_or(&call.func_name);
        let receiver = call.target.as_deref().filter(|_| qualified.is_none());
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for argument in receiver.into_iter().chain(&call.args) {
            args.push(self.value(argument)?);
        }
        let constant = name == "@in" && call.args.last().is_some_and(is_constant);
        if !constant {
            self.meter.call(name, &args)?;
        }
        if let Some(result) = authorizer::call(name, &args) {
            self.meter.charge(authorizer::cost(name))?;
            return Ok(result?);
        }
        if let Some(result) = operator(name, &args) {
            return Ok(result?);
        }
        if let Some(format) = library::constant_format(name).filter(|_| args.is_empty()) {
            return Ok(format);
        }
        match (name, args.as_slice()) {
            ("duration", [text]) if text.as_text().is_some() => duration(text),
            ("string", [moment]) if moment.downcast::<CelTimestamp>().is_some() => Ok(moment_text(moment)),
            ("optional.ofNonZeroValue", [moment]) if moment.downcast::<CelTimestamp>().is_some() => {
                Ok(SharedValue::optional((!is_first_moment(moment)).then(|| moment.clone())))
            }
            ("format", [text, list]) if receiver.is_some() => format(text, list),
            ("matches", [text, pattern]) => self.matches(text, pattern),
            ("find", [text, pattern]) => self.find(text, pattern),
            ("findAll", [text, pattern, most @ ..]) => self.find_all(text, pattern, most.first()),
            _ if receiver.is_some() => self.method(&call.func_name, args),
            _ => {
                let borrowed: Vec<CowVal<'_, 'static>> = args.iter().map(|arg| CowVal::Borrowed(arg)).collect();
                let Some(function) = self.env.find_overload(name, &borrowed) else {
                    return Err(no_overload(name, &args));
                };
                Ok(SharedValue::from_result(function(borrowed)?))
            }
        }
    }

    /// Calls a method. The crate finds methods only for a call in an expression.
    fn method(&self, name: &str, args: Vec<SharedValue>) -> Evaluated {
        let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
        if args.len() > ARGUMENTS.len() {
            return Err(no_overload(name, &args));
        }
        let call = CallExpr {
            func_name: name.to_owned(),
            target: Some(Box::new(ident(ARGUMENTS[0]))),
            args: ARGUMENTS[1..args.len()].iter().map(|name| ident(name)).collect(),
        };
        let mut context = Context::with_env(self.env.clone());
        for (name, arg) in ARGUMENTS.iter().zip(args) {
            context.add_variable_as_val(*name, Box::new(arg));
        }
        let call = IdedExpr { id: 0, expr: Expr::Call(call) };
        Ok(SharedValue::from_result(CelValue::resolve_val(&call, &context)?))
    }

    fn comprehension(&mut self, parts: &'a ComprehensionExpr) -> Evaluated {
        let range = self.value(&parts.iter_range)?;
        let outer = self.scope.len();
        let result = match (AppendStep::of(parts), InsertStep::of(parts)) {
            (Some(step), _) => self.append(parts, &step, &range),
            (None, Some(step)) => self.insert(parts, &step, &range),
            (None, None) => self.fold(parts, &range),
        };
        self.scope.truncate(outer);
        result
    }

    fn append(&mut self, parts: &'a ComprehensionExpr, step: &AppendStep<'a>, range: &SharedValue) -> Evaluated {
        let outer = self.scope.len();
        let mut list = Vec::new();
        let mut elements = Elements::of(range, &mut self.meter)?;
        while let Some(variables) = elements.next(range, parts.iter_var2.is_some()) {
            if self.begins_step(parts, variables, step.condition)? {
                // The addition, and the list that is added.
                self.meter.charge(1 + cost::LIST)?;
                for item in &step.items.elements {
                    list.push(self.value(item)?);
                }
            }
            self.scope.truncate(outer);
        }
        self.meter.charge(cost::SELECT)?;
        Ok(SharedValue::list(list))
    }

    fn insert(&mut self, parts: &'a ComprehensionExpr, step: &InsertStep<'a>, range: &SharedValue) -> Evaluated {
        let outer = self.scope.len();
        let mut map = BTreeMap::new();
        self.meter.charge(cost::MAP)?;
        let mut elements = Elements::of(range, &mut self.meter)?;
        while let Some(variables) = elements.next(range, parts.iter_var2.is_some()) {
            if self.begins_step(parts, variables, step.condition)? {
                self.meter.charge(1)?;
                for (key, value) in self.entries(step.entries)? {
                    self.meter.work(key_work(&key))?;
                    let own = CelMapKey::try_from(CowVal::Borrowed(&key as &dyn Val))?;
                    if map.insert(own, value).is_some() {
                        let shown = key.as_text().map_or_else(|| format!("{key:?}"), str::to_owned);
                        let why = format!("insert failed: key {shown} already exists");
                        return Err(ExecutionError::function_error(MAP_INSERT, why).into());
                    }
                }
            }
            self.scope.truncate(outer);
        }
        self.meter.charge(cost::SELECT)?;
        Ok(SharedValue::map(map.into_iter().collect()))
    }

    /// Evaluates a key and a value, or a map, to entries.
    fn entries(&mut self, parts: &'a [IdedExpr]) -> Result<Vec<(SharedValue, SharedValue)>, EvaluationError> {
        match parts {
            [key, value] => Ok(vec![(self.value(key)?, self.value(value)?)]),
            [map] => {
                let value = self.value(map)?;
                let Some(map) = value.as_map() else { return Err(no_overload(MAP_INSERT, &[value])) };
                let copy = map.inner().iter().map(|(key, value)| {
                    (SharedValue::from_box(key.inner().clone_as_boxed()), SharedValue::copy(&**value))
                });
                Ok(copy.collect())
            }
            _ => Err(no_overload(MAP_INSERT, &[])),
        }
    }

    fn fold(&mut self, parts: &'a ComprehensionExpr, range: &SharedValue) -> Evaluated {
        let begin = self.value(&parts.accu_init)?;
        let accumulator = self.scope.len();
        self.scope.push((&parts.accu_var, begin));
        let logical = is_logical(parts);
        let mut pending = None;
        let mut elements = Elements::of(range, &mut self.meter)?;
        while self.bool(&parts.loop_cond, "@not_strictly_false")? {
            let Some(variables) = elements.next(range, parts.iter_var2.is_some()) else { break };
            self.enter(parts, variables);
            let step = self.value(&parts.loop_step);
            self.scope.truncate(accumulator + 1);
            match step {
                Err(EvaluationError::Failed(error)) if logical.is_some() => pending = Some(error),
                Ok(value) if pending.is_some() && value.as_bool() != logical => {}
                step => {
                    self.scope[accumulator].1 = step?;
                    pending = None;
                }
            }
        }
        match pending {
            Some(error) => Err(error.into()),
            None => self.value(&parts.result),
        }
    }

    /// Declares the variables of a loop.
    fn enter(&mut self, parts: &'a ComprehensionExpr, variables: (SharedValue, Option<SharedValue>)) {
        self.scope.push((&parts.iter_var, variables.0));
        if let (Some(name), Some(value)) = (&parts.iter_var2, variables.1) {
            self.scope.push((name, value));
        }
    }

    /// Enters a step of a loop and returns whether its condition holds, for loops that extend a list or a map in place.
    fn begins_step(
        &mut self,
        parts: &'a ComprehensionExpr,
        variables: (SharedValue, Option<SharedValue>),
        condition: Option<&'a IdedExpr>,
    ) -> Result<bool, EvaluationError> {
        self.enter(parts, variables);
        // The list or map that is extended is an identifier.
        self.meter.charge(cost::SELECT)?;
        condition.map_or(Ok(true), |condition| self.bool(condition, "_?_:_"))
    }

    fn pattern(&mut self, function: &str, pattern: &str) -> Result<&Regex, EvaluationError> {
        if !self.patterns.contains_key(pattern) {
            self.meter.work(cost::REGEX_WORK)?;
            let why = |error: GoRegexError| {
                let said = if function == "matches" { "" } else { "Illegal regex: " };
                ExecutionError::function_error(function, format!("{said}{error}"))
            };
            self.patterns.insert(pattern.to_owned(), go_regex(pattern, REGEX_BYTES).map_err(why)?);
        }
        let missing = || ExecutionError::InternalError(format!("{pattern:?} is not compiled"));
        Ok(self.patterns.get(pattern).ok_or_else(missing)?)
    }

    fn matches(&mut self, text: &SharedValue, pattern: &SharedValue) -> Evaluated {
        let (Some(text), Some(pattern)) = (text.as_text(), pattern.as_text()) else {
            return Err(no_overload("matches", &[text.clone(), pattern.clone()]));
        };
        Ok(SharedValue::bool(self.pattern("matches", pattern)?.is_match(text)))
    }

    fn find(&mut self, text: &SharedValue, pattern: &SharedValue) -> Evaluated {
        let (Some(text), Some(pattern)) = (text.as_text(), pattern.as_text()) else {
            return Err(no_overload("find", &[text.clone(), pattern.clone()]));
        };
        Ok(SharedValue::text(self.pattern("find", pattern)?.find(text).map_or("", |found| found.as_str())))
    }

    fn find_all(&mut self, text: &SharedValue, pattern: &SharedValue, most: Option<&SharedValue>) -> Evaluated {
        let (Some(text), Some(pattern)) = (text.as_text(), pattern.as_text()) else {
            return Err(no_overload("findAll", &[text.clone(), pattern.clone()]));
        };
        let most = most.and_then(SharedValue::as_int).and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let found = self.pattern("findAll", pattern)?.find_iter(text).take(most);
        Ok(SharedValue::list(found.map(|found| SharedValue::text(found.as_str())).collect()))
    }
}

/// Returns a text with its clauses replaced by the items of a list.
fn format(text: &SharedValue, list: &SharedValue) -> Evaluated {
    let (Some(format), Some(items)) = (text.as_text(), list.as_list()) else {
        return Err(no_overload("format", &[text.clone(), list.clone()]));
    };
    let items: Vec<SharedValue> = items.inner().iter().map(|item| SharedValue::copy(&**item)).collect();
    let formatted = formatted(format, &items).map_err(|why| ExecutionError::function_error("format", why))?;
    Ok(SharedValue::text(formatted))
}

/// Returns the duration in a text. The crate ignores what is behind it.
fn duration(text: &SharedValue) -> Evaluated {
    let nanoseconds = text.as_text().and_then(go_duration).ok_or_else(|| {
        let why = "type conversion error from 'string' to 'google.protobuf.Duration'";
        ExecutionError::function_error("duration", why)
    })?;
    Ok(SharedValue::new(CelDuration::from(chrono::Duration::nanoseconds(nanoseconds))))
}

/// Returns a moment as Go's `RFC3339Nano` shows it, in its own zone. The crate changes it to UTC.
fn moment_text(moment: &SharedValue) -> SharedValue {
    let moment = moment.downcast::<CelTimestamp>();
    SharedValue::text(moment.map(|moment| rfc3339_nano(moment.inner())).unwrap_or_default())
}

/// Returns true for the zero of Go's `time.Time`. The crate's is that of Unix.
fn is_first_moment(value: &SharedValue) -> bool {
    const YEAR_ONE: i64 = -62_135_596_800;
    value
        .downcast::<CelTimestamp>()
        .is_some_and(|moment| moment.inner().timestamp() == YEAR_ONE && moment.inner().timestamp_subsec_nanos() == 0)
}

/// Returns the steps that it takes to find the place of a key.
fn key_work(key: &SharedValue) -> u64 {
    /// Comparisons in a large map.
    const COMPARISONS: u64 = 16;
    key.weight().saturating_mul(COMPARISONS)
}

/// The elements of a list in their order, or the entries of a map by key.
enum Elements {
    List(usize),
    Map(std::vec::IntoIter<(CelMapKey<'static>, SharedValue)>),
}

impl Elements {
    fn of(range: &SharedValue, meter: &mut CostMeter) -> Result<Self, EvaluationError> {
        if range.as_list().is_some() {
            return Ok(Self::List(0));
        }
        let Some(map) = range.as_map() else {
            let got = range.get_type().name().to_owned();
            return Err(ExecutionError::UnexpectedType { got, want: "iterable".to_owned() }.into());
        };
        meter.work(range.size())?;
        let mut entries: Vec<_> =
            map.inner().iter().map(|(key, value)| (key.clone(), SharedValue::copy(&**value))).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self::Map(entries.into_iter()))
    }

    /// Returns the next values of the loop's variables: the element of a list or the key of a map; with two variables
    /// the index or key, and the element or value.
    fn next(&mut self, range: &SharedValue, two: bool) -> Option<(SharedValue, Option<SharedValue>)> {
        match self {
            Self::List(index) => {
                let element = SharedValue::copy(&**range.as_list()?.inner().get(*index)?);
                let position = i64::try_from(*index).ok()?;
                *index += 1;
                Some(if two { (SharedValue::new(CelInt::from(position)), Some(element)) } else { (element, None) })
            }
            Self::Map(entries) => {
                let (key, value) = entries.next()?;
                Some((SharedValue::from_box(key.inner().clone_as_boxed()), two.then_some(value)))
            }
        }
    }
}

fn literal_value(literal: &LiteralValue) -> SharedValue {
    SharedValue::from_box(literal.to_val().into_owned())
}

/// Returns the element of a list, or the value of a map. Other values, such as null, have no keys: `refQualify` of
/// cel-go's `interpreter/attributes.go`, and `IndexOrError` of its `common/types/list.go`.
fn index(value: &SharedValue, key: &(dyn Val + 'static), operator: &str) -> Result<SharedValue, ExecutionError> {
    let types = || vec![value.get_type().name().to_owned(), key.get_type().name().to_owned()];
    let Some(indexer) = value.as_indexer() else {
        let key = SharedValue::copy(key);
        let number = || key.as_int().map(|number| number.to_string());
        let shown = key.as_text().map(str::to_owned).or_else(number).unwrap_or_else(|| format!("{key:?}"));
        return Err(ExecutionError::NoSuchKey(Arc::new(shown)));
    };
    match indexer.get(key) {
        Ok(found) => Ok(SharedValue::from_result(found)),
        Err(ExecutionError::NoSuchKey(name)) if operator != "_[_]" => {
            let escaped = escape_reserved(&name).map(CelString::from);
            let found = escaped.and_then(|escaped| indexer.get(&escaped).ok());
            found.map(SharedValue::from_result).ok_or(ExecutionError::NoSuchKey(name))
        }
        Err(ExecutionError::UnexpectedType { .. }) if value.as_list().is_some() => {
            let why = format!("unsupported index type '{}' in list", key.get_type().name());
            Err(ExecutionError::function_error(operator, why))
        }
        Err(ExecutionError::UnexpectedType { .. }) => Err(ExecutionError::no_such_overload(operator, types())),
        Err(error) => Err(error),
    }
}

/// Returns the result of an operator; `None` if `name` is none.
fn operator(name: &str, args: &[SharedValue]) -> Option<Result<SharedValue, ExecutionError>> {
    let types = || args.iter().map(|arg| arg.get_type().name().to_owned()).collect();
    let mismatch = || ExecutionError::no_such_overload(name, types());
    let made = |value: Result<CowVal<'_, 'static>, ExecutionError>| value.map(SharedValue::from_result);
    Some(match (name, args) {
        ("_==_", [a, b]) => Ok(SharedValue::bool(a.equals(b))),
        ("_!=_", [a, b]) => Ok(SharedValue::bool(!a.equals(b))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
            let order = a.as_comparer().ok_or_else(mismatch).and_then(|comparer| comparer.compare(b));
            order.map_err(|_| mismatch()).map(|order| {
                SharedValue::bool(match name {
                    "_<_" => order.is_lt(),
                    "_<=_" => order.is_le(),
                    "_>_" => order.is_gt(),
                    _ => order.is_ge(),
                })
            })
        }
        ("_+_", [a, b]) => match a.merged(b) {
            Some(merged) => Ok(merged),
            None => a.as_adder().ok_or_else(mismatch).and_then(|a| made(a.add(b))),
        },
        ("_-_", [a, b]) => a.as_subtractor().ok_or_else(mismatch).and_then(|a| made(a.sub(b))),
        ("_*_", [a, b]) => a.as_multiplier().ok_or_else(mismatch).and_then(|a| made(a.mul(b))),
        ("_/_", [a, b]) => a.as_divider().ok_or_else(mismatch).and_then(|a| made(a.div(b))),
        ("_%_", [a, b]) => a.as_modder().ok_or_else(mismatch).and_then(|a| made(a.modulo(b))),
        ("-_", [a]) => a.as_negator().ok_or_else(mismatch).and_then(|a| a.negate().map(SharedValue::from_box)),
        ("!_", [a]) => a.as_bool().map(|flag| SharedValue::bool(!flag)).ok_or_else(mismatch),
        ("@in", [item, list]) => {
            let contained = list.as_container().ok_or_else(mismatch).and_then(|list| list.contains(item));
            contained.map(SharedValue::bool)
        }
        ("_[_]", [value, key]) => index_optional(value, key, name).unwrap_or_else(|| index(value, key, name)),
        ("_[?_]" | "_?._", [value, key]) => {
            index_optional(value, key, name).unwrap_or_else(|| Ok(SharedValue::optional(index(value, key, name).ok())))
        }
        _ => return None,
    })
}

/// Returns the optional element of an optional value; `None` if the value is not optional.
fn index_optional(
    value: &SharedValue,
    key: &SharedValue,
    operator: &str,
) -> Option<Result<SharedValue, ExecutionError>> {
    let content = value.as_optional()?;
    Some(Ok(SharedValue::optional(content.and_then(|content| index(&content, key, operator).ok()))))
}

/// Checks a field of `JSONPatch` whose type was not known before: `JSONPatchType.Val` in
/// `staging/src/k8s.io/apiserver/pkg/cel/mutation/jsonpatch.go`.
fn check_patch_field(field: &str, value: &SharedValue) -> Result<(), String> {
    match field {
        "value" => Ok(()),
        "op" | "path" | "from" if value.as_text().is_some() => Ok(()),
        "op" | "path" | "from" => {
            let given = match (value.as_int(), value.as_bool()) {
                (Some(_), _) => "int64",
                (_, Some(_)) => "bool",
                _ => "interface {}",
            };
            Err(format!("unexpected type {given} for JSONPatchType '{field}' field"))
        }
        _ => Err(format!("unexpected JSONPatchType field: {field}")),
    }
}
