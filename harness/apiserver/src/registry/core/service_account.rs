//! Core `v1` `ServiceAccount`. See `pkg/registry/core/serviceaccount/strategy.go`.

use crate::json::Value;
use crate::metadata;
use crate::printers::column::NAME_AND_AGE;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::served_resource::CREATE_ONLY_VERBS;

/// The resource `serviceaccounts`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "serviceaccounts", "ServiceAccount", "io.k8s.api.core.v1.ServiceAccount")
        .short(&["sa"])
        .sub("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE_ONLY_VERBS)
        .hash("pbx9ZvyFpBE=")
        .rules(
            KindStrategy::new(Generic { updates: MetadataRules::Both, ..Generic::NEW }, |_| {})
                .drop_with(keep_names_of_secrets)
                .warn_with(warnings),
        )
        .columns(NAME_AND_AGE)
}

/// Returns the warning about a new annotation that restricts the secrets which pods may mount.
fn warnings(account: &Value, old: Option<&Value>) -> Vec<String> {
    const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |account: &Value| metadata::annotation(account, ENFORCED).is_some();
    let is_new = has(account) && !old.is_some_and(has);
    let advice = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    Vec::from_iter(is_new.then(|| format!("metadata.annotations[{ENFORCED}]: {advice}")))
}

/// Reduces the secrets of a service account to their names. See `pkg/registry/core/serviceaccount/strategy.go`.
fn keep_names_of_secrets(account: &mut Value, _old: Option<&Value>) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field.as_str() == "name");
    }
}
