//! `x-kubernetes-validations`: rules are compiled with their definition and evaluated for every object. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel` of Kubernetes 1.36.
//!
//! The crate `cel` parses and evaluates expressions; field types, type checks and Kubernetes' libraries are here. Costs
//! are not estimated, so definitions that kube-apiserver refuses as too expensive are accepted. A rule that calls a
//! function this server lacks is skipped, with a warning in the log.

mod check;
mod library;
#[cfg(test)]
mod tests;
mod types;
mod value;

use std::collections::BTreeMap;

use cel::common::types::CelOptional;
use cel::common::value::Val;
use cel::{Context, ExecutionError, Program, Value as CelValue};

use super::text;
use crate::field_errors::{BadValue, ErrorList, ErrorType, FieldError};
use crate::json::{Value, json};
use check::{CheckResult, check};
use types::CelType;
use value::TypedValue;

const RULES: &str = "x-kubernetes-validations";

/// The path printed for the whole object.
const ROOT_PATH: &str = "<nil>";

/// Deepest schema level that is visited.
const MAX_DEPTH: usize = 64;

/// A compiled rule.
#[derive(Debug)]
struct CompiledRule {
    program: Program,
    source: String,
    message: String,
    message_expression: Option<Program>,
    reason: ErrorType,
    field_path: String,
    uses_old: bool,
    optional_old: bool,
}

/// The rules of a schema and of the schemas nested in it.
#[derive(Debug)]
pub(super) struct CompiledRules {
    own: Vec<CompiledRule>,
    schema: Value,
    properties: BTreeMap<String, Self>,
    items: Option<Box<Self>>,
    additional: Option<Box<Self>>,
}

impl CompiledRules {
    /// Compiles the rules of a version's schema; `None` when it has none. A rule that does not compile here is skipped
    /// with a warning, because the definition was already validated.
    pub(super) fn of(schema: &Value, definition: &str) -> Option<Self> {
        Self::build(schema, definition, true, 0)
    }

    fn build(schema: &Value, definition: &str, root: bool, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let below = |schema: &Value| Self::build(schema, definition, false, depth + 1);
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties: BTreeMap<String, Self> =
            properties.filter_map(|(name, schema)| Some((name.to_string(), below(schema)?))).collect();
        let items = schema.get("items").filter(|items| items.is_object()).and_then(below).map(Box::new);
        let additional = schema.get("additionalProperties").filter(|extra| extra.is_object());
        let additional = additional.and_then(below).map(Box::new);
        let own = CelType::of(schema, root);
        let mut rules = Vec::new();
        for rule in schema[RULES].as_array().into_iter().flatten() {
            match compile(rule, &own) {
                Ok(rule) => rules.push(rule),
                Err(why) => tracing::warn!(definition, rule = text(rule, "rule"), why, "a rule is not asked"),
            }
        }
        let any = !rules.is_empty() || !properties.is_empty() || items.is_some() || additional.is_some();
        any.then(|| Self { own: rules, schema: schema.clone(), properties, items, additional })
    }

    /// Evaluates the rules for a new object, or for one that replaces `old`.
    pub(super) fn judge(&self, new: &Value, old: Option<&Value>) -> ErrorList {
        let mut errors = ErrorList::new();
        self.visit(new, old, "", &mut errors);
        errors
    }

    fn visit(&self, new: &Value, old: Option<&Value>, path: &str, errors: &mut ErrorList) {
        if new.is_null() {
            return;
        }
        for rule in &self.own {
            rule.ask(&self.schema, (new, old), path, errors);
        }
        match new {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let before = old.and_then(|old| old.get(name));
                    if let Some(rules) = self.properties.get(name.as_str()) {
                        let dot = if path.is_empty() { "" } else { "." };
                        rules.visit(value, before, &format!("{path}{dot}{name}"), errors);
                    } else if let Some(rules) = &self.additional {
                        rules.visit(value, before, &format!("{path}[{name}]"), errors);
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                let is_map = text(&self.schema, "x-kubernetes-list-type") == "map";
                let olds = old.and_then(Value::as_array).filter(|_| is_map);
                for (index, item) in items.iter().enumerate() {
                    let keys = value::keys_of(item, &self.schema);
                    let same = |old: &&Value| value::keys_of(old, &self.schema) == keys;
                    let before = olds.and_then(|olds| olds.iter().find(same));
                    rules.visit(item, before, &format!("{path}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }
}

fn compile(rule: &Value, own: &CelType) -> Result<CompiledRule, String> {
    let source = text(rule, "rule").trim().to_owned();
    let program = library::ENV.compile(&source).map_err(|error| error.to_string())?;
    let old = old_type(rule, own);
    let checked = check(&program, own, Some(&old));
    if let Some(function) = checked.unsupported {
        return Err(format!("{function} is not supported here"));
    }
    let expression = text(rule, "messageExpression").trim();
    let message_expression = if expression.is_empty() { None } else { library::ENV.compile(expression).ok() };
    let reason = match text(rule, "reason") {
        "FieldValueForbidden" => ErrorType::Forbidden,
        "FieldValueRequired" => ErrorType::Required,
        "FieldValueDuplicate" => ErrorType::Duplicate,
        _ => ErrorType::Invalid,
    };
    Ok(CompiledRule {
        program,
        source,
        message: text(rule, "message").trim().to_owned(),
        message_expression,
        reason,
        field_path: text(rule, "fieldPath").to_owned(),
        uses_old: checked.uses_old,
        optional_old: rule["optionalOldSelf"] == json!(true),
    })
}

fn old_type(rule: &Value, own: &CelType) -> CelType {
    if rule["optionalOldSelf"] == json!(true) { own.clone().optional() } else { own.clone() }
}

impl CompiledRule {
    fn ask(&self, schema: &Value, (new, old): (&Value, Option<&Value>), path: &str, errors: &mut ErrorList) {
        if self.uses_old && !self.optional_old && old.is_none() {
            return;
        }
        let answer = self.evaluate(&self.program, schema, new, old);
        // Ratcheting: an unchanged value may keep failing a rule that does not use `oldSelf`.
        let unchanged = !self.uses_old && old == Some(new);
        match answer {
            Ok(CelValue::Bool(true)) => {}
            _ if unchanged => {}
            Ok(_) => errors.push(self.refusal(schema, new, old, path)),
            Err(error) => {
                let own = text(schema, "type").to_owned();
                let why = format_evaluation_error(&error, &self.source);
                let field = if path.is_empty() { ROOT_PATH } else { path };
                errors.push(error_at(ErrorType::Invalid, field.to_owned(), BadValue::Quoted(own), why));
            }
        }
    }

    fn evaluate(
        &self,
        program: &Program,
        schema: &Value,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<CelValue, ExecutionError> {
        let ordered = self.uses_old;
        let convert = |value: &Value| {
            cel::to_value(TypedValue { value, schema, ordered })
                .map_err(|error| ExecutionError::InternalError(error.to_string()))
        };
        let mut context = Context::with_env(library::ENV.clone());
        let undeclared = |_| ExecutionError::InternalError("a variable cannot be declared".to_owned());
        context.add_variable_from_value("self", convert(new)?);
        if self.optional_old {
            let before = match old {
                None => CelOptional::none(),
                Some(old) => {
                    let before: Box<dyn Val> = Box::<dyn Val>::try_from(convert(old)?).map_err(undeclared)?;
                    CelOptional::of(before)
                }
            };
            context.add_variable_as_val("oldSelf", Box::new(before));
        } else if let Some(old) = old {
            context.add_variable_from_value("oldSelf", convert(old)?);
        }
        program.execute(&context)
    }

    fn refusal(&self, schema: &Value, new: &Value, old: Option<&Value>, path: &str) -> FieldError {
        let said = self.message_expression.as_ref().and_then(|program| {
            match self.evaluate(program, schema, new, old) {
                Ok(CelValue::String(said)) => Some(said.trim().to_owned()),
                _ => None,
            }
            .filter(|said| !said.is_empty() && !said.contains('\n'))
        });
        let why = said.unwrap_or_else(|| {
            if self.message.is_empty() { format!("failed rule: {}", self.source) } else { self.message.clone() }
        });
        let scalar = !new.is_object() && !new.is_array();
        let shown = if scalar { BadValue::from(new) } else { BadValue::Omitted };
        let whole = if self.field_path.is_empty() { path.to_owned() } else { joined(path, &self.field_path) };
        let field = if whole.is_empty() { ROOT_PATH.to_owned() } else { whole };
        let shown =
            if matches!(self.reason, ErrorType::Forbidden | ErrorType::Required) { BadValue::Omitted } else { shown };
        let why = if self.reason == ErrorType::Duplicate { String::new() } else { why };
        error_at(self.reason, field, shown, why)
    }
}

fn error_at(error_type: ErrorType, field: String, bad_value: BadValue, detail: String) -> FieldError {
    FieldError { error_type, field, bad_value, detail }
}

/// Appends a rule's `fieldPath`, such as `.a.b` or `['a']`, to a path.
fn joined(path: &str, added: &str) -> String {
    let added = added.replace("['", "[").replace("']", "]");
    let whole = format!("{path}{added}");
    whole.strip_prefix('.').map(str::to_owned).unwrap_or(whole)
}

/// Formats an evaluation error as cel-go does.
fn format_evaluation_error(error: &ExecutionError, source: &str) -> String {
    let why = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UnsupportedBinaryOperator(..) => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: {source}"
            );
        }
        other => other.to_string(),
    };
    format!("{why} evaluating rule: {source}")
}

/// Adds an error for each invalid expression in a version's schema, whose path is `path`.
pub(super) fn check_schema(schema: &Value, path: &str, errors: &mut ErrorList) {
    check_all(schema, path, true, None, 0, errors);
}

fn check_all(schema: &Value, path: &str, root: bool, around: Option<&str>, depth: usize, errors: &mut ErrorList) {
    if depth > MAX_DEPTH {
        return;
    }
    check_rules(schema, path, root, around, errors);
    let list_type = text(schema, "x-kubernetes-list-type");
    let atomic = text(schema, "x-kubernetes-map-type") == "atomic";
    let alone = around.is_none() && (atomic || (schema["items"].is_object() && list_type != "map"));
    let around = if alone { Some(path) } else { around };
    if schema["items"].is_object() {
        check_all(&schema["items"], &format!("{path}.items"), false, around, depth + 1, errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_all(property, &format!("{path}.properties[{name}]"), false, around, depth + 1, errors);
    }
    if schema["additionalProperties"].is_object() {
        let path = format!("{path}.additionalProperties");
        check_all(&schema["additionalProperties"], &path, false, around, depth + 1, errors);
    }
}

/// Checks the expressions of a schema's own rules. `uncorrelated` is the path of the enclosing list or atomic map whose
/// elements have no old counterpart.
fn check_rules(schema: &Value, path: &str, root: bool, uncorrelated: Option<&str>, errors: &mut ErrorList) {
    let own = CelType::of(schema, root);
    for (index, rule) in schema[RULES].as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("{path}.{RULES}[{index}].{field}");
        let source = text(rule, "rule").trim();
        if source.is_empty() {
            continue;
        }
        let invalid = |field: String, why: String| error_at(ErrorType::Invalid, field, format_rule(rule), why);
        let old = old_type(rule, &own);
        match checked(source, &own, &old) {
            Err(why) => errors.push(invalid(at("rule"), format!("compilation failed: {why}"))),
            Ok(result) if result.unsupported.is_none() && !matches!(result.ty, CelType::Bool | CelType::Dyn) => {
                errors.push(invalid(at("rule"), "cel expression must evaluate to a bool".to_owned()));
            }
            Ok(result) => {
                if result.uses_old
                    && let Some(list) = uncorrelated
                {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                    errors.push(error_at(ErrorType::Invalid, at("rule"), BadValue::Quoted(source.to_owned()), why));
                }
                if !result.uses_old && rule.get("optionalOldSelf").is_some_and(|flag| !flag.is_null()) {
                    let given = BadValue::from(&rule["optionalOldSelf"]);
                    let why = "may not be set if oldSelf is not used in rule".to_owned();
                    errors.push(error_at(ErrorType::Invalid, at("optionalOldSelf"), given, why));
                }
            }
        }
        let expression = text(rule, "messageExpression").trim();
        if expression.is_empty() {
            continue;
        }
        match checked(expression, &own, &old) {
            Err(why) => {
                errors.push(invalid(at("messageExpression"), format!("messageExpression compilation failed: {why}")));
            }
            Ok(result) if result.unsupported.is_none() && !matches!(result.ty, CelType::Text | CelType::Dyn) => {
                errors.push(invalid(at("messageExpression"), "messageExpression must evaluate to a string".to_owned()));
            }
            Ok(_) => {}
        }
    }
}

fn checked(source: &str, own: &CelType, old: &CelType) -> Result<CheckResult, String> {
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
    let result = check(&program, own, Some(old));
    if result.errors.is_empty() { Ok(result) } else { Err(result.errors.join("\n")) }
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
