//! `MutatingAdmissionPolicy`. Follows `plugin/policy/mutating` in `staging/src/k8s.io/apiserver/pkg/admission`.

use std::collections::BTreeSet;

use super::attributes::Attributes;
use super::conditions::{self, ConditionError, RequestValues};
use super::config::{AdmissionConfig, Mutation, Policy};
use super::host::AdmissionHost;
use super::matching::Invocation;
use super::mutated::{MutatedError, mutated, schema_of};
use super::policies::for_each_binding;
use super::reinvocation::Reinvocation;
use crate::expressions::admission::{Activation, BudgetExceeded, ExpressionError};
use crate::expressions::cost::OBJECT_BUDGET;
use crate::expressions::{CompileError, JsonError, to_json};
use crate::json::Value;
use crate::managedfields::PathElementError;
use crate::metadata;
use crate::patch::{self, json::OperationError};
use crate::schema::{ElementRelationship, Schema, TypeKind, TypeRef};
use crate::status::Status;

/// A policy, its binding and the namespace and name of its parameter.
pub(super) type InvocationKey = (String, String, String);

/// A policy that could not be applied.
struct PolicyError {
    message: String,
    reason: &'static str,
}

/// Applies the mutating policies.
pub(super) async fn run(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
) -> Result<(), Status> {
    apply_all(host, config, attributes, again, false).await
}

/// Applies the policies again that ask for it and were applied before a later change.
pub(super) async fn run_again(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
) -> Result<(), Status> {
    again.begin_again(attributes.object.as_ref());
    apply_all(host, config, attributes, again, true).await
}

/// A policy that is applied with one binding and one of its parameters.
struct Application<'p> {
    policy: &'p Policy,
    binding: String,
    params: Option<Value>,
    /// The index of its version among all invocations.
    version: usize,
}

impl Application<'_> {
    fn key(&self) -> InvocationKey {
        let named = |param: &Value| format!("{}/{}", metadata::namespace(param), metadata::name(param));
        (self.policy.name.clone(), self.binding.clone(), self.params.as_ref().map(named).unwrap_or_default())
    }
}

async fn apply_all(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &mut Attributes,
    again: &mut Reinvocation<InvocationKey>,
    second: bool,
) -> Result<(), Status> {
    let mut errors: Vec<PolicyError> = Vec::new();
    let mut found: Vec<Application<'_>> = Vec::new();
    // As upstream, the object has a state for each version: a policy does not see the changes of those of another one.
    let mut versions: Vec<Invocation> = Vec::new();
    for policy in &config.mutating_policies {
        for_each_binding(host, policy, attributes, &mut |binding, outcome| {
            let binding = binding.map(|binding| binding.name.clone()).unwrap_or_default();
            match outcome {
                Ok((invocation, params)) => {
                    let version = versions.iter().position(|known| known.resource == invocation.resource);
                    let version = version.unwrap_or_else(|| {
                        versions.push(invocation.clone());
                        versions.len() - 1
                    });
                    found.push(Application { policy, binding, params: params.cloned(), version });
                }
                Err(error) => {
                    errors.push(PolicyError { message: describe(policy, &binding, &error.to_string()), reason: "" });
                }
            }
        })
        .await;
    }
    // The version of the last policy whose conditions hold, and those whose object a mutation made.
    let mut last = None;
    let mut made = BTreeSet::new();
    for application in found {
        let key = application.key();
        let Some(invocation) = versions.get_mut(application.version) else { continue };
        let policy = application.policy;
        let params = application.params.as_ref();
        let mut failed = |error: &MutationError| {
            if !policy.ignores_failures {
                let message = describe(policy, &application.binding, &error.to_string());
                errors.push(PolicyError { message, reason: "Invalid" });
            }
        };
        match applies(host, policy, attributes, (invocation, params)) {
            Ok(true) if !second || again.is_due(&key) => {}
            Ok(_) => continue,
            Err(error) => {
                failed(&error);
                continue;
            }
        }
        last = Some(application.version);
        let before = invocation.object.clone();
        // A mutation that fails does not keep those after it from being made.
        for mutation in &policy.mutations {
            match apply(host, (policy, mutation), attributes, (invocation, params)) {
                Ok(true) => {
                    made.insert(application.version);
                }
                Ok(false) => {}
                Err(MutationError::Fatal(status)) => return Err(*status),
                Err(error) => failed(&error),
            }
        }
        if invocation.object != before {
            again.mark_changed();
        }
        if policy.is_reinvoked {
            again.record(key);
        }
    }
    if let Some(version) = last.filter(|version| made.contains(version))
        && let Some(invocation) = versions.get(version)
        && let Some(object) = invocation.object.clone()
    {
        // Also for the policy that made the object, as upstream.
        again.mark_changed();
        let failed = |status: Status| Status::internal(format!("failed to convert object: {}", status.message));
        attributes.object = Some(invocation.restore(host, object).await.map_err(failed)?);
    }
    again.end_round(attributes.object.as_ref());
    refusal(attributes, errors).map_or(Ok(()), Err)
}

/// Returns the refusal that names all policies which could not be applied.
fn refusal(attributes: &Attributes, errors: Vec<PolicyError>) -> Option<Status> {
    let first = errors.first()?;
    let mut status = attributes.forbidden("");
    status.message.clone_from(&first.message);
    if !first.reason.is_empty() {
        first.reason.clone_into(&mut status.reason);
    }
    Some(errors.into_iter().fold(status, |status, error| status.with_cause("", error.message, "")))
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
    #[error("JSON Patch: {0}")]
    Operation(OperationError),
    /// The object is not one of its kind any more.
    #[error(transparent)]
    Object(#[from] MutatedError),
    /// An error that ends the request with every failure policy.
    #[error("{}", .0.message)]
    Fatal(Box<Status>),
}

/// Returns true if the conditions of a policy hold.
fn applies(
    host: &dyn AdmissionHost,
    policy: &Policy,
    attributes: &Attributes,
    (invocation, params): (&Invocation, Option<&Value>),
) -> Result<bool, MutationError> {
    if policy.conditions.is_empty() {
        return Ok(true);
    }
    let values = RequestValues::of(host, attributes, invocation, false).with(params, true);
    let mut activation = Activation::new(values, &policy.variables);
    Ok(conditions::hold(&policy.conditions, &mut activation, policy.ignores_failures)?)
}

/// Makes one mutation with one set of parameters; returns true if it made an object, also the same one.
fn apply(
    host: &dyn AdmissionHost,
    (policy, mutation): (&Policy, &Mutation),
    attributes: &Attributes,
    (invocation, params): (&mut Invocation, Option<&Value>),
) -> Result<bool, MutationError> {
    let Some(object) = invocation.object.clone() else { return Ok(false) };
    let values = RequestValues::of(host, attributes, invocation, true).with(params, true);
    let mut activation = Activation::new(values, &policy.variables);
    invocation.object = Some(match mutation {
        Mutation::ApplyConfiguration(expression) => {
            let config = evaluate(&mut activation, expression)?;
            let changed = merged(&schema_of(host, invocation), &object, config)?;
            mutated(host, invocation, &changed)?.0
        }
        Mutation::JsonPatch(expression) => match patched(&object, &evaluate(&mut activation, expression)?)? {
            Some(changed) => decoded(host, invocation, &changed)?,
            None => object,
        },
    });
    Ok(true)
}

/// Returns the object that a JSON patch made. It is decoded strictly, and what is wrong with it ends the request.
fn decoded(host: &dyn AdmissionHost, invocation: &Invocation, changed: &Value) -> Result<Value, MutationError> {
    let fatal = |why: String| Err(MutationError::Fatal(Box::new(Status::internal(why))));
    match mutated(host, invocation, changed) {
        Ok((object, strict)) if strict.is_empty() => Ok(object),
        Ok((_, strict)) => fatal(format!("strict decoding error: {}", strict.join(", "))),
        Err(MutatedError::Decode(why)) => fatal(why),
        Err(MutatedError::Foreign(why)) => fatal(format!("failed to convert object: {why}")),
    }
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
fn merged(schema: &Schema, object: &Value, mut config: Value) -> Result<Value, MutationError> {
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
    Ok(patch::apply::merge(schema, object, &config)?)
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

/// Applies a JSON patch; `None` if a `test` in it fails.
fn patched(object: &Value, operations: &Value) -> Result<Option<Value>, MutationError> {
    let Value::Array(operations) = operations else {
        return Err(MutationError::NoList);
    };
    if !operations.iter().all(Value::is_object) {
        return Err(MutationError::NoPatch);
    }
    match patch::json::apply(object.clone(), operations.clone()) {
        Ok(changed) => Ok(Some(changed)),
        Err(OperationError::Test(_)) => Ok(None),
        Err(error) => Err(MutationError::Operation(error)),
    }
}
