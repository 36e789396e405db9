//! Match conditions, and the values that expressions of admission see. Follows
//! `plugin/webhook/matchconditions/matcher.go` and `plugin/cel/activation.go` in
//! `staging/src/k8s.io/apiserver/pkg/admission`.

use super::attributes::Attributes;
use super::host::AdmissionHost;
use super::matching::Invocation;
use super::review;
use crate::expressions::admission::{
    Activation, AdmissionExpression, AdmissionVariables, BudgetExceeded, ExpressionError, ReturnType,
};
use crate::expressions::cost::CONDITIONS_BUDGET;
use crate::expressions::{SharedValue, authorizer, from_json};
use crate::json::{Map, Value, json};

/// Fields of a namespace's metadata that expressions see.
const NAMESPACE_METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

/// Named expressions: conditions or variables.
pub(super) type NamedExpressions = Vec<(String, AdmissionExpression)>;

/// Compiles the conditions of a webhook or a policy.
pub(super) fn compile(conditions: &[Value], variables: &AdmissionVariables) -> NamedExpressions {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let compiled = conditions.iter().map(|condition| {
        let expression = AdmissionExpression::compile(&text(condition, "expression"), variables, ReturnType::Bool);
        (text(condition, "name"), expression)
    });
    compiled.collect()
}

/// The values of a request from which activations are made.
#[derive(Debug)]
pub(super) struct RequestValues {
    values: Vec<(&'static str, SharedValue)>,
    authorizer: SharedValue,
}

impl RequestValues {
    /// Returns the values of a request; without `namespace`, `namespaceObject` is null, as in match conditions.
    pub(super) fn of(
        host: &dyn AdmissionHost,
        attributes: &Attributes,
        invocation: &Invocation,
        namespace: bool,
    ) -> Self {
        let shown = |object: &Option<Value>| from_json(object.as_ref().unwrap_or(&Value::Null));
        let about = if namespace { namespace_object(host, attributes) } else { Value::Null };
        let values = vec![
            ("object", shown(&invocation.object)),
            ("oldObject", shown(&invocation.old)),
            ("request", from_json(&Value::Object(review::request(attributes, invocation)))),
            ("namespaceObject", from_json(&about)),
        ];
        Self { values, authorizer: authorizer_of(host, attributes) }
    }

    /// Returns the variables for expressions; `params` are null unless they are given.
    pub(super) fn with(&self, params: Option<&Value>, authorizer: bool) -> Vec<(&'static str, SharedValue)> {
        let mut values = self.values.clone();
        values.push(("params", from_json(params.unwrap_or(&Value::Null))));
        if authorizer {
            values.push(("authorizer", self.authorizer.clone()));
        }
        values
    }
}

/// Returns the namespace of a request as expressions see it; null for requests without one.
fn namespace_object(host: &dyn AdmissionHost, attributes: &Attributes) -> Value {
    if attributes.namespace.is_empty() || attributes.is_namespace() {
        return Value::Null;
    }
    let Some(namespace) = host.lister().get("", "namespaces", "", &attributes.namespace) else { return Value::Null };
    let metadata = &namespace["metadata"];
    let known = NAMESPACE_METADATA.iter().filter_map(|field| Some((*field, metadata.get(field)?.clone())));
    let mut shown = Map::new();
    shown.insert("metadata", Value::Object(known.collect()));
    for field in ["spec", "status"] {
        shown.insert(field, namespace.get(field).cloned().unwrap_or_else(|| json!({})));
    }
    Value::Object(shown)
}

fn authorizer_of(host: &dyn AdmissionHost, attributes: &Attributes) -> SharedValue {
    let user = json!({
        "user": attributes.user["username"],
        "groups": attributes.user["groups"],
        "uid": attributes.user["uid"],
    });
    let resource = json!({
        "group": attributes.resource.group,
        "version": attributes.resource.version,
        "resource": attributes.resource.resource,
        "subresource": attributes.subresource,
        "namespace": attributes.namespace,
        "name": attributes.name,
    });
    authorizer(host.reviewer(), user, resource)
}

/// Reasons why conditions cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConditionError {
    /// Together they cost too much.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The error of one condition.
    #[error(transparent)]
    One(ExpressionError),
    /// Errors of several conditions.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<ExpressionError>),
}

/// Returns true if all conditions hold.
///
/// # Errors
/// A condition cannot be evaluated, none is false, and the failure policy is `Fail`.
pub(super) fn hold(
    conditions: &NamedExpressions,
    activation: &mut Activation<'_>,
    ignores_failures: bool,
) -> Result<bool, ConditionError> {
    let mut budget = CONDITIONS_BUDGET;
    let mut errors: Vec<ExpressionError> = Vec::new();
    let mut failed = false;
    for (_, condition) in conditions {
        match activation.evaluate(condition, &mut budget) {
            Err(exceeded) => {
                return if ignores_failures { Ok(false) } else { Err(exceeded.into()) };
            }
            Ok(Err(error)) => {
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
            Ok(Ok(value)) => failed |= value.as_bool() == Some(false),
        }
    }
    if failed {
        return Ok(false);
    }
    match (errors.as_slice(), ignores_failures) {
        ([], _) => Ok(true),
        (_, true) => Ok(false),
        ([one], false) => Err(ConditionError::One(one.clone())),
        (_, false) => Err(ConditionError::Several(errors)),
    }
}
