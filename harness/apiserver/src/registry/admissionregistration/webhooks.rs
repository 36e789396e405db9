//! Webhook configurations of both kinds. See `pkg/apis/admissionregistration/validation/validation.go` and
//! `pkg/apis/admissionregistration/v1/defaults.go`. PURE.

use crate::expressions::admission::AdmissionVariables;
use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, non_null, object_mut, str_field, value_default};
use crate::json::{Map, Value};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::admissionregistration::matching::{
    self, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATIONS, match_conditions, rule,
};
use crate::registry::admissionregistration::policies;
use crate::registry::generic::{Generation, Generic};
use crate::registry::{checks, label_selector, names};

/// The rules of webhook configurations.
pub(super) const STRATEGY: Generic = Generic { generation: Generation::AllButStatus, ..policies::STRATEGY };

/// Defaults of `ValidatingWebhookConfiguration`.
pub(super) fn defaults(map: &mut Map) {
    const TIMEOUT_SECONDS: i64 = 10;
    for webhook in items_mut(map, "webhooks") {
        value_default(webhook, "failurePolicy", "Fail");
        value_default(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
        matching::default_match_resources(webhook);
        if let Some(service) = object_mut(webhook, "clientConfig").and_then(|config| object_mut(config, "service")) {
            value_default(service, "port", 443);
        }
    }
}

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(object: &Value, mutating: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Path::new("webhooks");
    let hooks = array_field(object, "webhooks");
    for (index, hook) in hooks.iter().enumerate() {
        let path = root.index(index);
        webhook(hook, mutating, &path, &mut errors);
        let name = str_field(hook, "name");
        if !name.is_empty() && hooks[..index].iter().any(|other| str_field(other, "name") == name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
    errors
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut ErrorList) {
    qualified_name(str_field(hook, "name"), &path.child("name"), errors);
    let rules = path.child("rules");
    for (index, one) in array_field(hook, "rules").iter().enumerate() {
        rule(one, &rules.index(index), errors);
    }
    checks::one_of(hook, "failurePolicy", &FAILURE_POLICIES, path, errors);
    checks::one_of(hook, "matchPolicy", &MATCH_POLICIES, path, errors);
    if str_field(hook, "sideEffects").is_empty() {
        errors.required(&path.child("sideEffects"), format!("must specify one of {}", SIDE_EFFECTS.join(", ")));
    }
    checks::one_of(hook, "sideEffects", &SIDE_EFFECTS, path, errors);
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), seconds, why);
    }
    label_selector::validate_field(hook, "namespaceSelector", path, errors);
    label_selector::validate_field(hook, "objectSelector", path, errors);
    if mutating {
        checks::one_of(hook, "reinvocationPolicy", &REINVOCATIONS, path, errors);
    }
    client_config(&hook["clientConfig"], &path.child("clientConfig"), errors);
    let known = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
    match_conditions(hook, &known, path, errors);
    admission_review_versions(hook, &path.child("admissionReviewVersions"), errors);
}

/// Checks a name of at least three parts.
fn qualified_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return errors.invalid(path, name, wrong.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// Validates the address of a webhook.
pub(crate) fn client_config(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (non_null(config, "url").and_then(Value::as_str), non_null(config, "service")) {
        (None, None) | (Some(_), Some(_)) => errors.required(path, "exactly one of url or service is required"),
        (Some(url), None) => webhook_url(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let path = path.child("service");
            for field in ["name", "namespace"] {
                if str_field(service, field).is_empty() {
                    errors.required(&path.child(field), format!("service {field} is required"));
                }
            }
            if let Some(port) = service["port"].as_i64().filter(|port| names::port_number(*port).is_some()) {
                let why = names::port_number(port).unwrap_or_default();
                errors.invalid(&path.child("port"), port, format!("port is not valid: {why}"));
            }
        }
    }
}

fn webhook_url(url: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok(uri) = url.parse::<http::Uri>() else {
        return errors.required(path, format!("url must be a valid URL: {url:?}{FORM}"));
    };
    if uri.scheme_str() != Some("https") {
        let scheme = uri.scheme_str().unwrap_or_default();
        errors.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if uri.host().unwrap_or_default().is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = uri.authority().and_then(|authority| authority.as_str().split_once('@')) {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = url.split_once('#') {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = uri.query() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn admission_review_versions(hook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = array_field(hook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, format!("must specify one of {}", VERSIONS.join(", ")));
    }
    review_versions(versions, path, errors);
}

/// Validates the versions of reviews that a webhook understands.
pub(crate) fn review_versions(versions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if versions[..index].contains(version) {
            errors.invalid(&path.index(index), text, "duplicate version");
        } else {
            checks::format(text, names::dns1035_label, &path.index(index), errors);
        }
    }
    if !versions.iter().any(|version| VERSIONS.iter().any(|known| version == known)) {
        let why = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.invalid(path, Value::from(versions.to_vec()), why);
    }
}

const WEBHOOKS: Column = Column::integer(
    "Webhooks",
    Description::Text("Webhooks indicates the number of webhooks registered in this configuration"),
    CellSource::Count("/webhooks"),
);

/// The columns of both kinds of webhook configurations.
pub(super) const COLUMNS: &[Column] = &[NAME, WEBHOOKS, AGE];
