//! `x-kubernetes-validations`: rules are compiled with their definition and evaluated for every object. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel` of Kubernetes 1.36.

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use cel::ExecutionError;

use super::field_path::field_path;
use super::text_fields::text;
use super::validate::is_unchanged;
use crate::expressions::cost;
use crate::expressions::estimate::{self, SchemaCost, estimate};
use crate::expressions::sizes::{self, SizedType};
use crate::expressions::value::{self, TypedValue};
use crate::expressions::{
    CelType, CheckResult, CompileError, EvaluationError, Expression, NO_THREAD, SharedValue, check, describe, escape,
    evaluate, library, parse,
};
use crate::field_errors::{BadValue, ErrorList, ErrorType, FieldError};
use crate::json::{Value, json};

const RULES: &str = "x-kubernetes-validations";

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The path printed for the whole object.
const ROOT_PATH: &str = "<nil>";

/// Deepest schema level that is visited.
const MAX_DEPTH: usize = 64;

/// Longest text of a `messageExpression`, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;

/// Bytes of a path that cost as much as the smallest expression.
const PATH_BYTES_PER_COST: usize = 1024;

/// No further rules are evaluated for this object.
struct BudgetExhausted;

/// The old and new value of a schema, which all its rules share.
struct RuleInput<'a> {
    schema: &'a Value,
    new: &'a Value,
    old: Option<&'a Value>,
    path: &'a str,
    /// The value, or one that contains it, is as it was.
    unchanged: bool,
    /// Some rule of the schema uses `oldSelf`.
    uses_old: bool,
    /// The values as CEL values: new, old.
    cel: [OnceCell<SharedValue>; 2],
}

impl RuleInput<'_> {
    /// Returns the error of a rule that says nothing about the value.
    fn unusable(&self, why: String) -> FieldError {
        let field = if self.path.is_empty() { ROOT_PATH } else { self.path };
        let shown = BadValue::Quoted(text(self.schema, "type").to_owned());
        error_at(ErrorType::Invalid, field.to_owned(), shown, why)
    }

    fn cel(&self, value: &Value, index: usize) -> SharedValue {
        let convert = || TypedValue { value, schema: self.schema, depth: 0 }.to_cel();
        self.cel[index].get_or_init(convert).clone()
    }
}

/// A compiled rule.
#[derive(Debug)]
struct CompiledRule {
    program: Expression,
    source: String,
    message: String,
    message_expression: Option<Expression>,
    message_expression_source: String,
    reason: ErrorType,
    field_path: String,
    uses_old: bool,
    optional_old: bool,
}

/// The rules of a schema and of the schemas nested in it.
#[derive(Debug)]
pub(super) struct CompiledRules {
    /// Each rule, or the error of its compilation.
    own: Vec<Result<CompiledRule, CompileError>>,
    /// The rules have no type to be compiled with, because the schema around is of another type than its parts say.
    untyped: bool,
    schema: Value,
    properties: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
    additional: Option<Box<Self>>,
}

impl CompiledRules {
    /// Compiles the rules of a version's schema; `None` when it has none.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        Self::build(schema, CelType::of(schema, true), 0)
    }

    /// `own` is the type of the schema, which those around it say; `depth` is 0 for the root. See `validator` in
    /// `schema/cel/validation.go`.
    fn build(schema: &Value, own: Option<CelType>, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let element = own.as_ref().and_then(CelType::element);
        let mut properties = BTreeMap::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let ty = match (escape(name), &own) {
                (Some(name), Some(CelType::Object(fields))) => fields.get(&name).cloned(),
                (Some(_), _) => None,
                (None, _) => CelType::of(property, false),
            };
            // Fields of no type are left out.
            let rules = ty.and_then(|ty| Self::build(property, Some(ty), depth + 1));
            properties.extend(rules.map(|rules| (name.to_string(), rules)));
        }
        let below = |field: &str| {
            let inner = schema.get(field).filter(|inner| inner.is_object())?;
            Self::build(inner, element.clone(), depth + 1).map(Box::new)
        };
        let (items, additional) = (below("items"), below("additionalProperties"));
        let sources = schema[RULES].as_array().map(Vec::as_slice).unwrap_or_default();
        let untyped = own.is_none() && !sources.is_empty();
        let rules = own.iter().flat_map(|own| sources.iter().map(move |rule| compile(rule, schema, own)));
        let rules: Vec<_> = rules.collect();
        let any = untyped || !rules.is_empty() || !properties.is_empty() || items.is_some() || additional.is_some();
        any.then(|| Self { own: rules, untyped, schema: schema.clone(), properties, items, additional })
    }

    /// Evaluates the rules for a new object, or for one that replaces `old`.
    pub(super) fn judge(&self, new: &Value, old: Option<&Value>) -> ErrorList {
        self.judge_within(new, old, cost::OBJECT_BUDGET).0
    }

    /// Like [`Self::judge`], with another budget for costs; returns what is left of it, too: `None` if it ran out.
    fn judge_within(&self, new: &Value, old: Option<&Value>, mut budget: u64) -> (ErrorList, Option<u64>) {
        let mut errors = ErrorList::new();
        // An error says why no further rules are evaluated.
        let ended = self.visit((new, old, false), "", &mut budget, &mut errors);
        (errors, ended.ok().map(|()| budget))
    }

    fn visit(
        &self,
        (new, old, within_unchanged): (&Value, Option<&Value>, bool),
        path: &str,
        budget: &mut u64,
        errors: &mut ErrorList,
    ) -> Result<(), BudgetExhausted> {
        if new.is_null() {
            return Ok(());
        }
        // Paths with very long keys are work, too.
        let long = u64::try_from(path.len() / PATH_BYTES_PER_COST).unwrap_or(u64::MAX);
        *budget = budget.saturating_sub(long);
        // A value that has no old one is as its parent: `shouldRatchetError` in `schema/cel/validation.go`. The type of
        // the whole counts as changed, because both objects are converted to it: `key` there.
        let is_type = ["apiVersion", "kind"].contains(&path);
        let unchanged = !is_type && old.map_or(within_unchanged, |old| is_unchanged(&self.schema, new, old));
        let uses_old = self.own.iter().flatten().any(|rule| rule.uses_old);
        // Rules do not see that a field was null.
        let before = old.filter(|old| !old.is_null());
        let cel = <[_; 2]>::default();
        let input = RuleInput { schema: &self.schema, new, old: before, path, unchanged, uses_old, cel };
        if self.untyped {
            let why = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            errors.push(input.unusable(why.to_owned()));
        }
        if *budget == 0 && !self.own.is_empty() {
            errors.push(input.unusable(OUT_OF_BUDGET.to_owned()));
            return Err(BudgetExhausted);
        }
        for rule in &self.own {
            match rule {
                Ok(rule) => rule.ask(&input, budget, errors)?,
                Err(error) => errors.push(input.unusable(format!("rule compile error: {error}"))),
            }
        }
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let before = old.and_then(|old| old.get(name));
                    if let Some(rules) = self.properties.get(name.as_str()) {
                        let dot = if path.is_empty() { "" } else { "." };
                        rules.visit((value, before, unchanged), &format!("{path}{dot}{name}"), budget, errors)?;
                    } else if let Some(rules) = &self.additional {
                        rules.visit((value, before, unchanged), &format!("{path}[{name}]"), budget, errors)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return Ok(()) };
                let is_map = text(&self.schema, "x-kubernetes-list-type") == "map";
                let olds = old.and_then(Value::as_array).filter(|_| is_map).into_iter().flatten();
                // The first item with a key counts.
                let olds: BTreeMap<String, &Value> =
                    olds.rev().map(|old| (value::keys_of(old, &self.schema), old)).collect();
                for (index, item) in items.iter().enumerate() {
                    let before = (!olds.is_empty()).then(|| olds.get(&value::keys_of(item, &self.schema)).copied());
                    rules.visit((item, before.flatten(), unchanged), &format!("{path}[{index}]"), budget, errors)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reasons why a `messageExpression` is not evaluated, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(
        "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
    )]
    Budget,
    #[error("no further validation rules will be run due to call cost exceeds limit for messageExpression: {0:?}")]
    Limit(String),
}

/// Compiles a rule of a schema whose type is `own`.
fn compile(rule: &Value, schema: &Value, own: &CelType) -> Result<CompiledRule, CompileError> {
    let source = text(rule, "rule");
    let program = parse(source)?;
    let old = old_type(rule, own);
    let check = |program: &Expression| {
        let checked = program.walk(|program| check(program, own, Some(&old)));
        checked.ok_or(CompileError::NoThread)?.valid()
    };
    let checked = check(&program)?;
    let expression = text(rule, "messageExpression");
    let message_expression = if expression.is_empty() { None } else { parse(expression).ok() };
    let is_text =
        |program: &Expression| check(program).is_ok_and(|checked| matches!(checked.ty, CelType::Text | CelType::Dyn));
    let target = text(rule, "fieldPath");
    let target = field_path(target, schema, true).map(|target| target.shown).unwrap_or_default();
    let reason = match text(rule, "reason") {
        "FieldValueForbidden" => ErrorType::Forbidden,
        "FieldValueRequired" => ErrorType::Required,
        "FieldValueDuplicate" => ErrorType::Duplicate,
        _ => ErrorType::Invalid,
    };
    Ok(CompiledRule {
        program,
        source: source.trim().to_owned(),
        message: text(rule, "message").trim().to_owned(),
        message_expression: message_expression.filter(is_text),
        message_expression_source: expression.to_owned(),
        reason,
        field_path: target,
        uses_old: checked.uses_old,
        optional_old: rule["optionalOldSelf"] == json!(true),
    })
}

fn old_type(rule: &Value, own: &CelType) -> CelType {
    if rule["optionalOldSelf"] == json!(true) { own.clone().optional() } else { own.clone() }
}

impl CompiledRule {
    fn ask(&self, input: &RuleInput<'_>, budget: &mut u64, errors: &mut ErrorList) -> Result<(), BudgetExhausted> {
        if self.uses_old && !self.optional_old && input.old.is_none() {
            return Ok(());
        }
        let mut refuse = |why: String| errors.push(input.unusable(why));
        let (answer, cost) = evaluate_rule(&self.program, input, self.optional_old);
        let Some(left) = budget.checked_sub(cost) else {
            refuse(OUT_OF_BUDGET.to_owned());
            return Err(BudgetExhausted);
        };
        *budget = left;
        match answer {
            Err(EvaluationError::Limit) => {
                refuse(format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    self.shown()
                ));
                return Err(BudgetExhausted);
            }
            Ok(value) if value.as_bool() == Some(true) => {}
            Ok(_) => return self.refuse(input, budget, errors),
            Err(EvaluationError::Failed(error)) => refuse(format_evaluation_error(&error, self.shown())),
        }
        Ok(())
    }

    /// Returns the text that represents the rule in errors of its evaluation.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.source } else { &self.message }
    }

    /// Adds the error of an object that does not fulfil the rule.
    fn refuse(&self, input: &RuleInput<'_>, budget: &mut u64, errors: &mut ErrorList) -> Result<(), BudgetExhausted> {
        let field = match (input.path, self.field_path.as_str()) {
            ("", "") => ROOT_PATH.to_owned(),
            ("", own) => own.to_owned(),
            (path, "") => path.to_owned(),
            (path, own) => format!("{path}.{own}"),
        };
        // Ratcheting: an unchanged value may keep failing a rule that does not use `oldSelf`.
        let unchanged = !self.uses_old && input.unchanged;
        let mut add = |error: FieldError| if unchanged { errors.warn(error.to_string()) } else { errors.push(error) };
        let said = match self.said(input, budget) {
            Ok(said) => said,
            Err(error) => {
                let own = text(input.schema, "type").to_owned();
                add(error_at(ErrorType::Invalid, field, BadValue::Quoted(own), error.to_string()));
                return Err(BudgetExhausted);
            }
        };
        let why = said.unwrap_or_else(|| {
            if self.message.is_empty() { format!("failed rule: {}", self.source) } else { self.message.clone() }
        });
        let scalar = !input.new.is_object() && !input.new.is_array();
        let shown = match self.reason {
            ErrorType::Forbidden | ErrorType::Required => BadValue::Omitted,
            _ if scalar => BadValue::from(input.new),
            _ => BadValue::Omitted,
        };
        let why = if self.reason == ErrorType::Duplicate { String::new() } else { why };
        add(error_at(self.reason, field, shown, why));
        Ok(())
    }

    /// Returns the text of the `messageExpression`; an error if it costs too much, `None` if it is not usable.
    fn said(&self, input: &RuleInput<'_>, budget: &mut u64) -> Result<Option<String>, MessageError> {
        let Some(program) = &self.message_expression else { return Ok(None) };
        // Upstream gives messages the old value itself, also where their type check expected an optional one.
        let (answer, cost) = evaluate_rule(program, input, false);
        let Some(left) = budget.checked_sub(cost) else {
            return Err(MessageError::Budget);
        };
        *budget = left;
        if matches!(answer, Err(EvaluationError::Limit)) {
            return Err(MessageError::Limit(self.message_expression_source.clone()));
        }
        let said = answer.ok().and_then(|answer| Some(answer.as_text()?.trim().to_owned()));
        Ok(said.filter(|said| !said.is_empty() && !said.contains('\n') && said.len() <= MESSAGE_MAX))
    }
}

/// Evaluates a rule or a message; returns its cost, too. `oldSelf` is known if any rule of the schema uses it.
fn evaluate_rule(
    program: &Expression,
    input: &RuleInput<'_>,
    optional_old: bool,
) -> (Result<SharedValue, EvaluationError>, u64) {
    let new = input.cel(input.new, 0);
    let mut variables = vec![("self", new)];
    let old = input.old.filter(|_| input.uses_old).map(|old| input.cel(old, 1));
    if optional_old {
        variables.push(("oldSelf", SharedValue::optional(old)));
    } else if let Some(old) = old {
        variables.push(("oldSelf", old));
    }
    let evaluated = program.walk(|program| evaluate(program, &library::ENV, variables));
    evaluated.unwrap_or_else(|| (Err(ExecutionError::InternalError(NO_THREAD.to_owned()).into()), 0))
}

fn error_at(error_type: ErrorType, field: String, bad_value: BadValue, detail: String) -> FieldError {
    FieldError { error_type, field, bad_value, detail }
}

/// Formats an evaluation error as upstream does.
fn format_evaluation_error(error: &ExecutionError, source: &str) -> String {
    match error {
        ExecutionError::NoSuchOverload(_) | ExecutionError::UnsupportedBinaryOperator(..) => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {source}"
        ),
        other => format!("{} evaluating rule: {source}", describe(other)),
    }
}

/// Evaluates the rules of a schema that is part of a version's, for its default.
pub(super) fn judge_default(schema: &Value, default: &Value) -> ErrorList {
    CompiledRules::build(schema, CelType::of(schema, false), 1)
        .map(|rules| rules.judge(default, None))
        .unwrap_or_default()
}

/// Adds an error for each invalid expression in a version's schema, whose path is `path`, and for expressions that cost
/// too much.
pub(super) fn check_schema(schema: &Value, path: &str, errors: &mut ErrorList) {
    let mut checker = SchemaChecker { errors, cost: SchemaCost::default() };
    let node = SchemaNode { schema, root: true, uncorrelated: None, cardinality: Some(1), depth: 0 };
    checker.visit(&node, path);
    let SchemaChecker { errors, cost } = checker;
    if let Some((paths, message)) = cost.exceeded() {
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        for path in paths {
            errors.push(error_at(ErrorType::Forbidden, path, BadValue::Omitted, why.to_owned()));
        }
        errors.push(error_at(ErrorType::Forbidden, path.to_owned(), BadValue::Omitted, message));
    }
}

struct SchemaChecker<'e> {
    errors: &'e mut ErrorList,
    cost: SchemaCost,
}

/// A schema and its place in the whole.
#[derive(Clone, Copy)]
struct SchemaNode<'a> {
    schema: &'a Value,
    root: bool,
    /// The path of the enclosing list or atomic map whose elements have no old counterpart.
    uncorrelated: Option<&'a str>,
    /// Returns the largest number of values of the schema in an object; `None` if the schemas around it set no limit.
    cardinality: Option<u64>,
    depth: usize,
}

impl SchemaChecker<'_> {
    fn visit(&mut self, node: &SchemaNode<'_>, path: &str) {
        let schema = node.schema;
        if node.depth > MAX_DEPTH {
            return;
        }
        self.rules(node, path);
        let list_type = text(schema, "x-kubernetes-list-type");
        let atomic = text(schema, "x-kubernetes-map-type") == "atomic";
        let alone = node.uncorrelated.is_none() && (atomic || (schema["items"].is_object() && list_type != "map"));
        let uncorrelated = if alone { Some(path) } else { node.uncorrelated };
        let factor = match text(schema, "type") {
            "object" if schema["additionalProperties"].is_object() => sizes::limit(schema, "maxProperties"),
            "array" => sizes::limit(schema, "maxItems"),
            _ => Some(1),
        };
        let cardinality = node.cardinality.zip(factor).map(|(outer, factor)| outer.saturating_mul(factor));
        let below = |schema| SchemaNode { schema, root: false, uncorrelated, cardinality, depth: node.depth + 1 };
        if schema["items"].is_object() {
            self.visit(&below(&schema["items"]), &format!("{path}.items"));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.visit(&below(property), &format!("{path}.properties[{name}]"));
        }
        if schema["additionalProperties"].is_object() {
            self.visit(&below(&schema["additionalProperties"]), &format!("{path}.additionalProperties"));
        }
    }

    /// Checks the expressions of a schema's own rules.
    fn rules(&mut self, node: &SchemaNode<'_>, path: &str) {
        let Some(rules) = node.schema[RULES].as_array().filter(|rules| !rules.is_empty()) else { return };
        let Some(own) = CelType::of(node.schema, node.root) else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(error_at(
                ErrorType::Internal,
                format!("{path}.{RULES}"),
                BadValue::Omitted,
                why.to_owned(),
            ));
            return;
        };
        let sized = SizedType::of(node.schema, node.root);
        let cardinality = node.cardinality.unwrap_or_else(|| sized.cardinality());
        for (index, rule) in rules.iter().enumerate() {
            let at = |field: &str| format!("{path}.{RULES}[{index}].{field}");
            let source = text(rule, "rule");
            if source.trim().is_empty() {
                continue;
            }
            let old = old_type(rule, &own);
            match checked(source, &own, &old, &sized) {
                // The message of a rule with an error is not compiled.
                Err(error) => {
                    self.invalid(at("rule"), rule, error.to_string());
                    continue;
                }
                Ok((result, _)) if !matches!(result.ty, CelType::Bool | CelType::Dyn) => {
                    self.invalid(at("rule"), rule, "cel expression must evaluate to a bool".to_owned());
                    continue;
                }
                Ok((result, cost)) => {
                    self.expensive("estimated rule cost", at("rule"), cost.saturating_mul(cardinality));
                    self.old_self(rule, &result, node.uncorrelated, &at);
                }
            }
            let expression = text(rule, "messageExpression");
            if expression.trim().is_empty() {
                continue;
            }
            match checked(expression, &own, &old, &sized) {
                Err(CompileError::Program(error)) => {
                    let why = format!("messageExpression instantiation failed: {error}");
                    self.invalid(at("messageExpression"), rule, why);
                }
                Err(error) => self.invalid(at("messageExpression"), rule, format!("messageExpression {error}")),
                Ok((result, _)) if !matches!(result.ty, CelType::Text | CelType::Dyn) => {
                    let why = "messageExpression must evaluate to a string".to_owned();
                    self.invalid(at("messageExpression"), rule, why);
                }
                Ok((_, cost)) => {
                    self.expensive("estimated messageExpression cost", at("messageExpression"), cost);
                }
            }
        }
    }

    fn invalid(&mut self, field: String, rule: &Value, why: String) {
        self.errors.push(error_at(ErrorType::Invalid, field, format_rule(rule), why));
    }

    /// Adds an expression's cost, and an error if it is too much.
    fn expensive(&mut self, what: &str, field: String, cost: u64) {
        if let Some(why) = estimate::exceeded(what, cost, estimate::EXPRESSION_LIMIT) {
            self.errors.push(error_at(ErrorType::Forbidden, field.clone(), BadValue::Omitted, why));
        }
        self.cost.add(field, cost);
    }

    fn old_self(
        &mut self,
        rule: &Value,
        result: &CheckResult,
        uncorrelated: Option<&str>,
        at: &dyn Fn(&str) -> String,
    ) {
        if result.uses_old
            && let Some(list) = uncorrelated
        {
            let source = text(rule, "rule").trim().to_owned();
            let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(error_at(ErrorType::Invalid, at("rule"), BadValue::Quoted(source), why));
        }
        if !result.uses_old && rule.get("optionalOldSelf").is_some_and(|flag| !flag.is_null()) {
            let given = BadValue::from(&rule["optionalOldSelf"]);
            let why = "may not be set if oldSelf is not used in rule".to_owned();
            self.errors.push(error_at(ErrorType::Invalid, at("optionalOldSelf"), given, why));
        }
    }
}

/// Parses an expression and checks its types; returns the estimate of its cost, too.
fn checked(
    source: &str,
    own: &CelType,
    old: &CelType,
    sized: &Arc<SizedType>,
) -> Result<(CheckResult, u64), CompileError> {
    let expression = parse(source)?;
    let walked = expression.walk(|program| {
        let result = check(program, own, Some(old));
        let cost = if result.errors.is_empty() { estimate(program.expression(), &result.types, sized) } else { 0 };
        (result, cost)
    });
    let (result, cost) = walked.ok_or(CompileError::NoThread)?;
    Ok((result.valid()?, cost))
}

/// Prints a rule as upstream's internal type is printed in errors.
fn format_rule(rule: &Value) -> BadValue {
    let given = |field: &str| escaped(&text(rule, field).into());
    let optional = |field: &str| escaped(&rule.get(field).cloned().unwrap_or(Value::Null));
    BadValue::Raw(format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        given("rule"),
        given("message"),
        given("messageExpression"),
        optional("reason"),
        given("fieldPath"),
        optional("optionalOldSelf"),
    ))
}

/// Encodes JSON as Go's encoder does, with HTML characters escaped.
fn escaped(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
