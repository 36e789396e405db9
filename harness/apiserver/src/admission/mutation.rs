//! `MutatingAdmissionPolicy`. Follows `plugin/policy/mutating` in `staging/src/k8s.io/apiserver/pkg/admission`.

use super::attributes::Attributes;
use super::conditions::{self, ConditionError, RequestValues};
use super::config::{AdmissionConfig, Mutation, Policy};
use super::matching::Invocation;
use super::policies::for_each_binding;
use super::reinvocation::Reinvocation;
use super::{AdmissionHost, mutated};
use crate::expressions::admission::{Activation, BudgetExceeded, ExpressionError};
use crate::expressions::cost::OBJECT_BUDGET;
use crate::expressions::{CompileError, JsonError, to_json};
use crate::json::{Map, Value};
use crate::managedfields::PathElementError;
use crate::metadata;
use crate::patch;
use crate::schema::{DecodeError, ElementRelationship, Schema, TypeKind, TypeRef};
use crate::status::Status;

/// A policy, its binding and the namespace and name of its parameter.
pub(super) type InvocationKey = (String, String, String);

/// A policy that could not be applied.
struct PolicyError {
    message: String,
    reason: &'static str,
}

/// Applies the mutating policies.
pub(super) fn run(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
) -> Result<(), Status> {
    apply_all(host, config, attributes, again, false)
}

/// Applies the policies again that ask for it and were applied before a later change.
pub(super) fn run_again(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
) -> Result<(), Status> {
    again.begin_again(attributes.object.as_ref());
    apply_all(host, config, attributes, again, true)
}

fn apply_all(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
    second: bool,
) -> Result<(), Status> {
    let mut errors: Vec<PolicyError> = Vec::new();
    let mut found: Vec<(&Policy, String, Invocation, Option<Value>)> = Vec::new();
    for policy in &config.mutating_policies {
        for_each_binding(host, policy, attributes, &mut |binding, outcome| {
            let name = binding.map(|binding| binding.name.clone()).unwrap_or_default();
            match outcome {
                Ok((invocation, params)) => found.push((policy, name, invocation.clone(), params.cloned())),
                Err(error) => {
                    errors.push(PolicyError { message: describe(policy, &name, &error.to_string()), reason: "" });
                }
            }
        });
    }
    for (policy, binding, invocation, params) in found {
        let param = params.as_ref().map(|param| format!("{}/{}", metadata::namespace(param), metadata::name(param)));
        let key = (policy.name.clone(), binding.clone(), param.unwrap_or_default());
        if second && !again.is_due(&key) {
            continue;
        }
        let before = attributes.object.clone();
        if let Err(error) = apply(host, policy, attributes, (&invocation, params.as_ref()))
            && !policy.ignores_failures
        {
            errors.push(PolicyError { message: describe(policy, &binding, &error.to_string()), reason: "Invalid" });
        }
        if attributes.object != before {
            again.mark_changed();
        }
        if policy.is_reinvoked {
            again.record(key);
        }
    }
    again.end_round(attributes.object.as_ref());
    let Some(first) = errors.first() else { return Ok(()) };
    let mut status = attributes.forbidden("");
    status.message.clone_from(&first.message);
    if !first.reason.is_empty() {
        first.reason.clone_into(&mut status.reason);
    }
    Err(errors.into_iter().fold(status, |status, error| status.with_cause("", error.message, "")))
}

fn describe(policy: &Policy, binding: &str, why: &str) -> String {
    if binding.is_empty() {
        return format!("policy {:?} denied request: {why}", policy.name);
    }
    format!("policy '{}' with binding '{binding}' denied request: {why}", policy.name)
}

/// Reasons why a policy cannot be applied, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum MutationError {
    #[error(transparent)]
    Condition(#[from] ConditionError),
    #[error(transparent)]
    Compilation(CompileError),
    /// A message in the expression has the type of another field.
    #[error("{0}")]
    TypeName(String),
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error("the expression evaluated to a type that could not marshal to JSON: {0}")]
    Json(#[from] JsonError),
    #[error("unsupported return type from ApplyConfiguration expression")]
    NoObject,
    #[error("error applying patch: failed to convert patch object to typed object: {0}")]
    Untyped(String),
    #[error("error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
    #[error("error applying patch: {0}")]
    Merge(#[from] PathElementError),
    #[error("type mismatch: JSONPatchType.expression should evaluate to array")]
    NoList,
    #[error("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")]
    NoPatch,
    #[error("JSON Patch: {}", unappliable(.0))]
    Operation(Value),
    /// The object is not one of its kind any more.
    #[error(transparent)]
    Object(#[from] DecodeError),
}

/// Applies one policy with one set of parameters.
fn apply(
    host: &dyn AdmissionHost,
    policy: &Policy,
    attributes: &mut Attributes,
    (invocation, params): (&Invocation, Option<&Value>),
) -> Result<(), MutationError> {
    let mut invocation = invocation.clone();
    // An earlier policy may have changed the object.
    if invocation.other().is_none() {
        invocation.object.clone_from(&attributes.object);
    }
    if !policy.conditions.is_empty() {
        let values = RequestValues::of(host, attributes, &invocation, false).with(params, true);
        let mut activation = Activation::new(values, &policy.variables);
        if !conditions::hold(&policy.conditions, &mut activation, policy.ignores_failures)? {
            return Ok(());
        }
    }
    for mutation in &policy.mutations {
        let Some(object) = invocation.object.clone() else { continue };
        let values = RequestValues::of(host, attributes, &invocation, true).with(params, true);
        let mut activation = Activation::new(values, &policy.variables);
        let changed = match mutation {
            Mutation::ApplyConfiguration(expression) => {
                let config = evaluate(&mut activation, expression)?;
                merged(&host.schema(), &object, config)?
            }
            Mutation::JsonPatch(expression) => patched(&object, &evaluate(&mut activation, expression)?)?,
        };
        let Some(changed) = changed else { continue };
        let changed = mutated(host, &host.schema(), &invocation, &changed)?;
        invocation.object = Some(changed.clone());
        attributes.object = Some(changed);
    }
    Ok(())
}

fn evaluate(
    activation: &mut Activation<'_>,
    expression: &crate::expressions::admission::AdmissionExpression,
) -> Result<Value, MutationError> {
    if let Some(error) = expression.error() {
        return Err(MutationError::Compilation(error.clone()));
    }
    if let Some(why) = &expression.misnamed {
        return Err(MutationError::TypeName(why.clone()));
    }
    let mut budget = OBJECT_BUDGET;
    let value = activation.evaluate(expression, &mut budget)??;
    Ok(to_json(&value)?)
}

/// Merges an apply configuration into the object.
fn merged(schema: &Schema, object: &Value, mut config: Value) -> Result<Option<Value>, MutationError> {
    let Some(fields) = config.as_object_mut() else {
        return Err(MutationError::NoObject);
    };
    for field in ["apiVersion", "kind"] {
        fields.insert(field, object[field].clone());
    }
    if let Some(why) = patch::apply::schema_error(schema, &config) {
        return Err(MutationError::Untyped(why));
    }
    let mut atomics = Vec::new();
    find_atomics(schema, schema.root(), &config, String::new(), &mut atomics);
    if !atomics.is_empty() {
        return Err(MutationError::Atomic(atomics));
    }
    Ok(Some(patch::apply::merge(schema, object, &config)?))
}

fn find_atomics(schema: &Schema, ty: TypeRef, value: &Value, path: String, found: &mut Vec<String>) {
    let is_atomic = match (schema.shape(ty), value) {
        (TypeKind::Struct(shape), Value::Object(_)) => shape.atomic,
        (TypeKind::Map(shape), Value::Object(_)) => shape.atomic,
        (TypeKind::List(list), Value::Array(_)) => list.topology == ElementRelationship::Atomic,
        _ => false,
    };
    if is_atomic {
        found.push(path.clone());
    }
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if let Some(ty) = schema.field_type(ty, name) {
                    find_atomics(schema, ty, inner, format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            if let TypeKind::List(list) = schema.shape(ty) {
                for (index, item) in items.iter().enumerate() {
                    find_atomics(schema, list.items, item, format!("{path}[{index}]"), found);
                }
            }
        }
        _ => {}
    }
}

/// Returns the error of an operation that cannot be applied.
fn unappliable(operation: &Value) -> String {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let op = text("op");
    let path = text("path");
    let key = path.rsplit('/').next().unwrap_or_default();
    match op {
        "remove" => {
            format!("error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value")
        }
        "replace" => format!("replace operation does not apply: doc is missing key: {path}: missing value"),
        "add" => format!("add operation does not apply: doc is missing path: \"{path}\": missing value"),
        _ => format!("{op} operation does not apply: doc is missing path: {path}: missing value"),
    }
}

/// Applies a JSON patch; `None` if a `test` in it fails.
fn patched(object: &Value, operations: &Value) -> Result<Option<Value>, MutationError> {
    let Value::Array(operations) = operations else {
        return Err(MutationError::NoList);
    };
    let mut current = object.clone();
    for operation in operations {
        let Some(fields) = operation.as_object() else {
            return Err(MutationError::NoPatch);
        };
        let fields: Map = fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let is_test = fields.get("op").is_some_and(|op| *op == "test");
        match patch::json::apply(current, vec![Value::Object(fields)]) {
            Ok(changed) => current = changed,
            Err(_) if is_test => return Ok(None),
            Err(_) => return Err(MutationError::Operation(operation.clone())),
        }
    }
    Ok(Some(current))
}
