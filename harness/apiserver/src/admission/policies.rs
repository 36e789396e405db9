//! `ValidatingAdmissionPolicy`. Follows `plugin/policy/validating/{dispatcher,validator}.go` and
//! `plugin/policy/generic/policy_dispatcher.go` in `staging/src/k8s.io/apiserver/pkg/admission`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attributes::Attributes;
use super::conditions::{self, RequestValues};
use super::config::{AdmissionConfig, Binding, Policy, Validation};
use super::host::AdmissionHost;
use super::matching::{self, Criteria, Invocation};
use crate::expressions::SharedValue;
use crate::expressions::admission::{Activation, BudgetExceeded};
use crate::expressions::cost::OBJECT_BUDGET;
use crate::json::fields::str_field;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::{Resource, label_selector};
use crate::status::Status;

/// Longest text of a `messageExpression`, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;

/// Longest value of an audit annotation, in bytes.
const ANNOTATION_MAX: usize = 10 * 1024;

/// The values of a policy's audit annotations, by key. Bindings with other parameters can give a key other values.
type PolicyAnnotations = BTreeMap<String, Vec<String>>;

/// The key of the annotation about a validation that failed.
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A refusal by a policy.
#[derive(Debug)]
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: String::new() }
    }
}

/// The error of a policy or a binding that is not configured well.
#[derive(Debug, thiserror::Error)]
#[error("failed to configure {what}: {why}")]
pub(super) struct ConfigurationError {
    what: &'static str,
    why: String,
}

/// Reasons why a binding has no parameters, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum ParameterError {
    #[error("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")]
    Kind { group: String, version: String, kind: String },
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    Namespace,
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
}

/// Gets a binding, if it is known, and how it matches with one of its parameters.
pub(super) type EachBinding<'e> =
    dyn FnMut(Option<&Binding>, Result<(&Invocation, Option<&Value>), ConfigurationError>) + Send + 'e;

/// Validates a request by all policies; the first refusal counts.
pub(super) async fn validate(
    host: &dyn AdmissionHost,
    config: &AdmissionConfig,
    attributes: &Attributes,
) -> Result<(), Status> {
    let mut denied = None;
    for policy in &config.validating_policies {
        let mut annotations = PolicyAnnotations::default();
        for_each_binding(host, policy, attributes, &mut |binding, outcome| {
            let denials = match outcome {
                Ok(invocation) => evaluate(host, (policy, binding), attributes, invocation, &mut annotations),
                Err(error) => Err(Denial::new(error.to_string())),
            };
            if let Err(denial) = denials
                && denied.is_none()
            {
                denied = Some(refusal(policy, binding, attributes, denial));
            }
        })
        .await;
        for (key, values) in annotations {
            host.annotate(format!("{}/{key}", policy.name), values.join(", "));
        }
    }
    denied.map_or(Ok(()), Err)
}

/// Calls a function for each binding and each of its parameters that apply to a request, or with the error of the
/// configuration unless the policy ignores failures. The objects are converted once, for the first binding.
pub(super) async fn for_each_binding(
    host: &dyn AdmissionHost,
    policy: &Policy,
    attributes: &Attributes,
    each: &mut EachBinding<'_>,
) {
    let constraints = &policy.spec["matchConstraints"];
    let mut invocation = match matching::matches(host, Criteria::of_match_resources(constraints), attributes) {
        Ok(Some(invocation)) => invocation,
        Ok(None) => return,
        Err(status) => return misconfigured(policy, each, None, &status.message),
    };
    if let Err(error) = param_resource(host, policy) {
        return misconfigured(policy, each, None, &error.to_string());
    }
    let mut is_converted = false;
    for binding in &policy.bindings {
        let resources = &binding.spec["matchResources"];
        if resources.is_object() {
            match matching::matches(host, Criteria::of_match_resources(resources), attributes) {
                Ok(Some(_)) => {}
                Ok(None) => continue,
                Err(status) => {
                    misconfigured(policy, each, Some(binding), &status.message);
                    continue;
                }
            }
        }
        let parameters = match parameters(host, policy, binding, attributes) {
            Ok(parameters) => parameters,
            Err(error) => {
                misconfigured(policy, each, Some(binding), &error.to_string());
                continue;
            }
        };
        if !is_converted && !parameters.is_empty() {
            match invocation.clone().convert(host).await {
                Ok(converted) => invocation = converted,
                Err(status) => {
                    unconverted(policy, each, binding, &status.message);
                    continue;
                }
            }
            is_converted = true;
        }
        for params in &parameters {
            each(Some(binding), Ok((&invocation, params.as_ref())));
        }
    }
}

/// Reports an object that cannot be converted; mutating policies blame themselves, validating ones the binding.
fn unconverted(policy: &Policy, each: &mut EachBinding<'_>, binding: &Binding, why: &str) {
    if policy.validations.is_empty() {
        misconfigured(policy, each, None, why);
    } else {
        misconfigured(policy, each, Some(binding), &format!("failed to convert object version: {why}"));
    }
}

/// Reports an error of the configuration, unless the policy ignores failures.
fn misconfigured(policy: &Policy, each: &mut EachBinding<'_>, binding: Option<&Binding>, why: &str) {
    if !policy.ignores_failures {
        let what = if binding.is_some() { "binding" } else { "policy" };
        each(binding, Err(ConfigurationError { what, why: why.to_owned() }));
    }
}

/// Returns the resource of a policy's parameters; `None` if it has none.
fn param_resource(host: &dyn AdmissionHost, policy: &Policy) -> Result<Option<Arc<Resource>>, ParameterError> {
    let wanted = &policy.spec["paramKind"];
    if !wanted.is_object() {
        return Ok(None);
    }
    let (group, version) = {
        let api_version = str_field(wanted, "apiVersion");
        api_version.split_once('/').unwrap_or(("", api_version))
    };
    let kind = str_field(wanted, "kind");
    let found = host.registry().resource_for_kind(group, version, kind).cloned();
    let unknown =
        || ParameterError::Kind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() };
    found.ok_or_else(unknown).map(Some)
}

/// Returns the parameters of a binding; one `None` if it has none.
fn parameters(
    host: &dyn AdmissionHost,
    policy: &Policy,
    binding: &Binding,
    attributes: &Attributes,
) -> Result<Vec<Option<Value>>, ParameterError> {
    let reference = &binding.spec["paramRef"];
    let Some(resource) = param_resource(host, policy)?.filter(|_| reference.is_object()) else {
        return Ok(vec![None]);
    };
    let text = |value: &Value, field: &str| str_field(value, field).to_owned();
    let given = text(reference, "namespace");
    if !resource.namespaced && !given.is_empty() {
        return Err(ParameterError::Namespace);
    }
    let namespace = match (resource.namespaced, given.is_empty()) {
        (false, _) => String::new(),
        (true, false) => given,
        (true, true) if attributes.namespace.is_empty() => return Err(ParameterError::NoNamespace),
        (true, true) => attributes.namespace.clone(),
    };
    let group = &resource.storage.group;
    let plural = &resource.storage.resource;
    let wanted = text(reference, "name");
    let stored = if wanted.is_empty() {
        let selector = reference.get("selector");
        let mut all = host.lister().list(group, plural, &namespace);
        all.retain(|object| {
            let labels = metadata::labels(object).cloned().map(Value::Object);
            label_selector::matches(selector, labels.as_ref()).unwrap_or(false)
        });
        all
    } else {
        host.lister().get(group, plural, &namespace, &wanted).into_iter().collect()
    };
    if stored.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err(ParameterError::NotFound);
    }
    Ok(stored.into_iter().map(|object| Some(resource.from_storage(object))).collect())
}

/// Evaluates a policy with one set of parameters.
fn evaluate(
    host: &dyn AdmissionHost,
    (policy, binding): (&Policy, Option<&Binding>),
    attributes: &Attributes,
    (invocation, params): (&Invocation, Option<&Value>),
    annotations: &mut PolicyAnnotations,
) -> Result<(), Denial> {
    let tolerant = |why: String| if policy.ignores_failures { Ok(()) } else { Err(Denial::new(why)) };
    let values = RequestValues::of(host, attributes, invocation, true);
    if !policy.conditions.is_empty() {
        let conditions = RequestValues::of(host, attributes, invocation, false);
        let mut activation = Activation::new(conditions.with(params, true), &policy.variables);
        match conditions::hold(&policy.conditions, &mut activation, policy.ignores_failures) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return act(host, policy, binding, (0, Denial::new(error.to_string()))),
        }
    }
    let mut activation = Activation::new(values.with(params, true), &policy.variables);
    let mut budget = OBJECT_BUDGET;
    let mut results = Vec::new();
    for validation in &policy.validations {
        match activation.evaluate(&validation.expression, &mut budget) {
            Ok(result) => results.push((validation, result)),
            Err(exceeded) => {
                let index = results.len();
                return tolerant(exceeded.to_string()).or_else(|denial| act(host, policy, binding, (index, denial)));
            }
        }
    }
    let mut messages = Activation::new(values.with(params, false), &policy.variables);
    let mut first = Ok(());
    for (index, (validation, result)) in results.into_iter().enumerate() {
        let decided = match result {
            Ok(value) if value.as_bool() == Some(true) => Ok(()),
            Ok(_) => match said(validation, &mut messages, &mut budget) {
                Ok(message) => Err(Denial { message, reason: validation.reason.clone() }),
                Err(exceeded) => tolerant(format!("failed messageExpression: {exceeded}")),
            },
            Err(error) => tolerant(error.to_string()),
        };
        if let Err(denial) = decided {
            first = first.and(act(host, policy, binding, (index, denial)));
        }
    }
    first.and(annotate(policy, &values, params, annotations))
}

/// Does what a binding asks for about the validation with this index: denies, warns, or annotates the audit event.
fn act(
    host: &dyn AdmissionHost,
    policy: &Policy,
    binding: Option<&Binding>,
    (index, denial): (usize, Denial),
) -> Result<(), Denial> {
    let Some(binding) = binding else { return Err(denial) };
    let name = &policy.name;
    let own = &binding.name;
    let message = &denial.message;
    if binding.has_action("Warn") {
        host.warn(format!("Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{own}': {message}"));
    }
    if binding.has_action("Audit") {
        let failure = json!([{
            "message": message, "policy": name, "binding": own, "expressionIndex": index,
            "validationActions": binding.spec["validationActions"],
        }]);
        host.annotate(FAILURE.to_owned(), failure.to_string());
    }
    if binding.has_action("Deny") { Err(denial) } else { Ok(()) }
}

/// Returns the message of a validation that failed.
fn said(validation: &Validation, messages: &mut Activation<'_>, budget: &mut u64) -> Result<String, BudgetExceeded> {
    if let Some(expression) = &validation.message_expression {
        match messages.evaluate(expression, budget)? {
            Ok(value) => {
                let message = value.as_text().unwrap_or_default().trim();
                if !message.is_empty() && message.len() <= MESSAGE_MAX && !message.contains('\n') {
                    return Ok(message.to_owned());
                }
            }
            Err(error) => tracing::info!(%error, "a messageExpression has no value"),
        }
    }
    if !validation.message.is_empty() {
        return Ok(validation.message.clone());
    }
    Ok(format!("failed expression: {}", validation.expression.source.trim()))
}

/// Evaluates the audit annotations and adds their values.
fn annotate(
    policy: &Policy,
    values: &RequestValues,
    params: Option<&Value>,
    annotations: &mut PolicyAnnotations,
) -> Result<(), Denial> {
    let mut activation = Activation::new(values.with(params, true), &policy.variables);
    let mut budget = OBJECT_BUDGET;
    for (key, expression) in &policy.audit_annotations {
        let evaluated = match activation.evaluate(expression, &mut budget) {
            Ok(evaluated) => evaluated.map_err(|error| error.to_string()),
            Err(exceeded) => Err(exceeded.to_string()),
        };
        match evaluated {
            Ok(value) => publish(key, &value, annotations),
            Err(why) if policy.ignores_failures => {
                tracing::info!(policy = policy.name, key, why, "no audit annotation");
            }
            Err(why) => return Err(Denial::new(why)),
        }
    }
    Ok(())
}

/// Adds a value that is neither empty nor known.
fn publish(key: &str, value: &SharedValue, annotations: &mut PolicyAnnotations) {
    let value = value.as_text().unwrap_or_default().trim();
    let end = value.floor_char_boundary(ANNOTATION_MAX);
    if value.is_empty() {
        return;
    }
    let known = annotations.entry(key.to_owned()).or_default();
    if !known.iter().any(|known| known == &value[..end]) {
        known.push(value[..end].to_owned());
    }
}

fn refusal(policy: &Policy, binding: Option<&Binding>, attributes: &Attributes, denial: Denial) -> Status {
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{}'{with} denied request: {}", policy.name, denial.message);
    let mut status = attributes.forbidden(&message);
    status.reason = if denial.reason.is_empty() { "Invalid".to_owned() } else { denial.reason };
    status.code = match status.reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status.with_cause("", message, "")
}
