//! Webhook configurations of both kinds. See `pkg/apis/admissionregistration/validation/validation.go` and
//! `pkg/apis/admissionregistration/{v1,v1beta1}/defaults.go`. PURE.

use crate::expressions::admission::AdmissionVariables;
use crate::field_errors::{ErrorList, Path};
use crate::go_url::Url;
use crate::json::fields::{array_field, is_empty_value, items_mut, non_null, object_mut, str_field, value_default};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::admissionregistration::matching::{
    self, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATIONS, match_conditions, rule,
};
use crate::registry::admissionregistration::policies;
use crate::registry::generic::{Generation, Generic};
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, label_selector, names};

/// The rules of webhook configurations.
const STRATEGY: Generic = Generic { generation: Generation::AllButStatus, ..policies::STRATEGY };

/// The strategy of webhook configurations.
#[derive(Debug, Clone, Copy)]
pub(in crate::registry) struct WebhookConfigurations {
    /// The webhooks are mutating ones.
    pub mutating: bool,
    /// The version is `v1beta1`, whose defaults differ and whose webhooks may have side effects.
    pub beta: bool,
}

impl WebhookConfigurations {
    /// Validates a configuration that is new, or that replaces `old`.
    fn check(self, object: &Value, old: Option<&Value>) -> ErrorList {
        let mut errors = ErrorList::new();
        let root = Path::new("webhooks");
        let hooks = array_field(object, "webhooks");
        let before = old.map_or(&[][..], |old| array_field(old, "webhooks"));
        let has_effects = |hook: &Value| !NO_SIDE_EFFECTS.contains(&str_field(hook, "sideEffects"));
        let side_effects: &[&str] =
            if self.beta || before.iter().any(has_effects) { &SIDE_EFFECTS } else { &NO_SIDE_EFFECTS };
        let is_unique = !self.beta && !named_again(before).contains(&true);
        let named_again = named_again(hooks);
        for (index, hook) in hooks.iter().enumerate() {
            let path = root.index(index);
            webhook(hook, self.mutating, side_effects, &path, &mut errors);
            if is_unique && named_again[index] {
                errors.duplicate(&path.child("name"), str_field(hook, "name"));
            }
        }
        errors
    }
}

impl Strategy for WebhookConfigurations {
    fn default(&self, object: &mut Value) {
        const TIMEOUT_SECONDS: i64 = 10;
        const BETA_TIMEOUT_SECONDS: i64 = 30;
        let Some(map) = object.as_object_mut() else { return };
        for webhook in items_mut(map, "webhooks") {
            if self.beta {
                value_default(webhook, "failurePolicy", "Ignore");
                value_default(webhook, "matchPolicy", "Exact");
                value_default(webhook, "sideEffects", "Unknown");
                value_default(webhook, "timeoutSeconds", BETA_TIMEOUT_SECONDS);
                if is_empty_value(webhook.get("admissionReviewVersions")) {
                    webhook.insert("admissionReviewVersions", json!(["v1beta1"]));
                }
            }
            value_default(webhook, "failurePolicy", "Fail");
            value_default(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
            matching::default_match_resources(webhook);
            if self.mutating {
                value_default(webhook, "reinvocationPolicy", "Never");
            }
            if let Some(service) = object_mut(webhook, "clientConfig").and_then(|config| object_mut(config, "service"))
            {
                value_default(service, "port", 443);
            }
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate(object);
        errors.append(self.check(object, None));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate_update(new, old);
        errors.append(self.check(new, Some(old)));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        policies::name_warnings(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        policies::name_warnings(new, Some(old))
    }

    fn allow_unconditional_update(&self) -> bool {
        STRATEGY.unconditional
    }
}

const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Marks the webhooks that have the name of one before them.
fn named_again(hooks: &[Value]) -> Vec<bool> {
    let name = |hook| str_field(hook, "name");
    let repeated = checks::repeated(hooks, name);
    hooks.iter().zip(repeated).map(|(hook, is_repeated)| is_repeated && !name(hook).is_empty()).collect()
}

fn webhook(hook: &Value, mutating: bool, side_effects: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    qualified_name(str_field(hook, "name"), &path.child("name"), errors);
    let rules = path.child("rules");
    for (index, one) in array_field(hook, "rules").iter().enumerate() {
        rule(one, &rules.index(index), errors);
    }
    checks::one_of(hook, "failurePolicy", &FAILURE_POLICIES, path, errors);
    checks::one_of(hook, "matchPolicy", &MATCH_POLICIES, path, errors);
    if non_null(hook, "sideEffects").is_none() {
        errors.required(&path.child("sideEffects"), format!("must specify one of {}", side_effects.join(", ")));
    }
    checks::one_of(hook, "sideEffects", side_effects, path, errors);
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
            webhook_service(service, &path.child("service"), errors);
        }
    }
}

/// Validates the service of a webhook: `ValidateWebhookService` of `pkg/util/webhook/validation.go` in
/// `k8s.io/apiserver`. Its callers pass name and namespace in the wrong order, so each is missed in the place of the
/// other.
fn webhook_service(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (field, shown) in [("namespace", "name"), ("name", "namespace")] {
        if str_field(service, field).is_empty() {
            errors.required(&path.child(shown), "");
        }
    }
    if let Some(port) = service["port"].as_i64()
        && let Some(why) = names::port_number(port)
    {
        errors.invalid(&path.child("port"), port, format!("port is not valid: {why}"));
    }
    let given = str_field(service, "path");
    let path = path.child("path");
    match given {
        "" | "/" => return,
        "//" => return errors.invalid(&path, given, "segment[0] may not be empty"),
        _ => {}
    }
    if !given.starts_with('/') {
        errors.invalid(&path, given, "must start with a '/'");
    }
    // Upstream drops the first byte, which may be a part of a letter.
    let steps = String::from_utf8_lossy(&given.as_bytes()[1..]);
    for (index, step) in steps.strip_suffix('/').unwrap_or(&steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&path, given, format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in names::dns1123_subdomain(step) {
            errors.invalid(&path, given, format!("segment[{index}]: {why}"));
        }
    }
}

fn webhook_url(given: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(given) {
        Ok(url) => url,
        Err(error) => return errors.required(path, format!("url must be a valid URL: {error}{FORM}")),
    };
    if url.scheme != "https" {
        errors.invalid(path, &*url.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = &url.user {
        errors.invalid(path, &**user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        errors.invalid(path, &*url.fragment, "fragments are not permitted in the URL");
    }
    if !url.raw_query.is_empty() {
        errors.invalid(path, &*url.raw_query, "query parameters are not permitted in the URL");
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
    let repeated = checks::repeated(versions, Value::as_str);
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if repeated[index] {
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
