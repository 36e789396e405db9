//! The stored configurations, compiled: read again after each of their changes.
//! See `staging/src/k8s.io/apiserver/pkg/admission/configuration`.

use std::collections::BTreeMap;

use super::attributes::GROUP;
use super::conditions::{self, NamedExpressions};
#[cfg(feature = "controllers")]
use crate::expressions::CelType;
use crate::expressions::admission::{AdmissionExpression, AdmissionVariables, ReturnType};
use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;
use crate::registry::ObjectLister;

/// Seconds that a webhook has for its answer unless it says something else.
const TIMEOUT_SECONDS: u64 = 10;

/// All stored configurations.
#[derive(Debug, Default)]
pub(crate) struct AdmissionConfig {
    pub(super) mutating_webhooks: Vec<Webhook>,
    pub(super) validating_webhooks: Vec<Webhook>,
    pub(super) mutating_policies: Vec<Policy>,
    pub(super) validating_policies: Vec<Policy>,
}

impl AdmissionConfig {
    /// Reads the stored configurations and compiles their expressions.
    pub(crate) fn read(lister: &dyn ObjectLister) -> Self {
        let sorted = |resource: &str| {
            let mut objects = lister.list(GROUP, resource, "");
            objects.sort_by(|a, b| metadata::name(a).cmp(metadata::name(b)));
            objects
        };
        let webhooks = |resource: &str| -> Vec<Webhook> {
            let of = |object: &Value| {
                let hooks = array_field(object, "webhooks").iter().enumerate();
                hooks.map(|(index, hook)| Webhook::of(object, index, hook)).collect::<Vec<_>>()
            };
            sorted(resource).iter().flat_map(of).collect()
        };
        let policies = |resource: &str, bindings: &str| -> Vec<Policy> {
            let bindings = sorted(bindings);
            let of = |policy: &Value| {
                let name = metadata::name(policy);
                let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *name);
                Policy::of(policy, own.map(Binding::of).collect())
            };
            // A policy without a binding has no effect.
            sorted(resource).iter().map(of).filter(|policy| !policy.bindings.is_empty()).collect()
        };
        Self {
            mutating_webhooks: webhooks("mutatingwebhookconfigurations"),
            validating_webhooks: webhooks("validatingwebhookconfigurations"),
            mutating_policies: policies("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
            validating_policies: policies("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        }
    }

    /// Returns true if there are no webhooks and no policies with bindings.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating_webhooks.is_empty()
            && self.validating_webhooks.is_empty()
            && self.mutating_policies.is_empty()
            && self.validating_policies.is_empty()
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Identifies a webhook among all: configuration, index and name.
pub(super) type WebhookId = (String, usize, String);

/// A webhook of a configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) id: WebhookId,
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) conditions: NamedExpressions,
    pub(super) ignores_failures: bool,
    pub(super) versions: Vec<String>,
    pub(super) timeout_seconds: u64,
    pub(super) is_reinvoked: bool,
    /// The webhook may be called in a dry run.
    pub(super) allows_dry_run: bool,
}

impl Webhook {
    fn of(configuration: &Value, index: usize, hook: &Value) -> Self {
        let name = text(hook, "name");
        let variables = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
        let versions = array_field(hook, "admissionReviewVersions");
        Self {
            id: (metadata::name(configuration).to_owned(), index, name.clone()),
            conditions: conditions::compile(array_field(hook, "matchConditions"), &variables),
            ignores_failures: hook["failurePolicy"] == "Ignore",
            versions: versions.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            timeout_seconds: hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS),
            is_reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
            allows_dry_run: matches!(hook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            spec: hook.clone(),
            name,
        }
    }
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) spec: Value,
}

impl Binding {
    fn of(binding: &Value) -> Self {
        Self { name: metadata::name(binding).to_owned(), spec: binding["spec"].clone() }
    }

    pub(super) fn has_action(&self, action: &str) -> bool {
        array_field(&self.spec, "validationActions").iter().any(|one| *one == action)
    }
}

/// A validation of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: AdmissionExpression,
    pub(super) message_expression: Option<AdmissionExpression>,
    pub(super) message: String,
    pub(super) reason: String,
}

/// A mutation of a policy.
#[derive(Debug)]
pub(super) enum Mutation {
    ApplyConfiguration(AdmissionExpression),
    JsonPatch(AdmissionExpression),
}

/// A policy with its bindings.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) bindings: Vec<Binding>,
    pub(super) ignores_failures: bool,
    pub(super) conditions: NamedExpressions,
    pub(super) variables: NamedExpressions,
    pub(super) validations: Vec<Validation>,
    pub(super) audit_annotations: NamedExpressions,
    pub(super) mutations: Vec<Mutation>,
    pub(super) is_reinvoked: bool,
}

impl Policy {
    fn of(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = policy["spec"].clone();
        let params = spec.get("paramKind").is_some_and(Value::is_object);
        let mut known = AdmissionVariables { params, authorizer: true, ..AdmissionVariables::default() };
        let variables = compile_variables(&spec, &mut known);
        let messages = AdmissionVariables { authorizer: false, ..known.clone() };
        let validation = |given: &Value| Validation {
            expression: AdmissionExpression::compile(&text(given, "expression"), &known, ReturnType::Bool),
            message_expression: Some(text(given, "messageExpression"))
                .filter(|source| !source.is_empty())
                .map(|source| AdmissionExpression::compile(&source, &messages, ReturnType::Text)),
            message: text(given, "message").trim().to_owned(),
            reason: text(given, "reason"),
        };
        let annotation = |given: &Value| {
            let source = text(given, "valueExpression");
            (text(given, "key"), AdmissionExpression::compile(&source, &known, ReturnType::TextOrNull))
        };
        let patches = AdmissionVariables { patches: true, ..known.clone() };
        let mutation = |given: &Value| {
            if given["patchType"] == "JSONPatch" {
                let source = text(&given["jsonPatch"], "expression");
                return Mutation::JsonPatch(AdmissionExpression::compile(&source, &patches, ReturnType::JsonPatches));
            }
            let source = text(&given["applyConfiguration"], "expression");
            Mutation::ApplyConfiguration(AdmissionExpression::compile(&source, &patches, ReturnType::Object))
        };
        Self {
            name: metadata::name(policy).to_owned(),
            bindings,
            ignores_failures: spec["failurePolicy"] == "Ignore",
            conditions: conditions::compile(array_field(&spec, "matchConditions"), &known),
            validations: array_field(&spec, "validations").iter().map(validation).collect(),
            audit_annotations: array_field(&spec, "auditAnnotations").iter().map(annotation).collect(),
            mutations: array_field(&spec, "mutations").iter().map(mutation).collect(),
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            variables,
            spec,
        }
    }
}

/// Type checks the validations of a `ValidatingAdmissionPolicy` for objects and parameters of these types; returns the
/// fields with errors and the errors. Follows `plugin/policy/validating/typechecking.go`.
#[cfg(feature = "controllers")]
pub(crate) fn type_errors(spec: &Value, object: &CelType, params: Option<&CelType>) -> Vec<(String, String)> {
    let mut known = AdmissionVariables {
        params: spec.get("paramKind").is_some_and(Value::is_object),
        authorizer: true,
        object: Some(object.clone()),
        params_type: params.cloned(),
        ..AdmissionVariables::default()
    };
    compile_variables(spec, &mut known);
    let mut errors = Vec::new();
    for (index, validation) in array_field(spec, "validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = text(validation, field);
            if source.is_empty() {
                continue;
            }
            if let Some(error) = AdmissionExpression::compile(&source, &known, ReturnType::Any).error() {
                let error = error.to_string();
                let why = error.strip_prefix("compilation failed: ").unwrap_or(&error);
                errors.push((format!("spec.validations[{index}].{field}"), why.to_owned()));
            }
        }
    }
    errors
}

/// Compiles the variables of a policy; each may use those before it.
fn compile_variables(spec: &Value, known: &mut AdmissionVariables) -> NamedExpressions {
    let mut fields = BTreeMap::new();
    let mut variables = Vec::new();
    for given in array_field(spec, "variables") {
        known.fields = Some(fields.clone());
        let expression = AdmissionExpression::compile(&text(given, "expression"), known, ReturnType::Any);
        fields.insert(text(given, "name"), expression.ty.clone());
        variables.push((text(given, "name"), expression));
    }
    known.fields = Some(fields);
    variables
}
