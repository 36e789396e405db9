//! Create-only kinds: access reviews, token reviews, bindings. Follows `pkg/registry/authorization` and
//! `pkg/registry/authentication` of Kubernetes 1.36.
//!
//! The administrator may do everything. Reviews about other users, and by other users (service accounts; `kubectl auth
//! can-i --as`), are answered from the stored roles and bindings.

use super::admission::Admission;
use super::body;
use super::impersonation::EffectiveUser;
use super::options::WriteOptions;
use super::rbac;
use super::reply::{self, ReplyContent};
use super::request_scope::RequestScope;
use super::{authorization, field_manager, subresources};
use crate::admission::AdmissionOperation;
use crate::authn::ISSUER;
use crate::field_errors::BadValue;
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::registry::{ErrorList, Path};
use crate::request::Reply;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::server::ApiServer;
use crate::status::Status;
use crate::{go_json, metadata, name_formats, object_lifecycle};

/// Handles POST of a kind that is not stored.
pub(crate) async fn create(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    if scope.kind.kind == "Binding" {
        return subresources::bind(scope, None).await;
    }
    let negotiated = reply::negotiate_transient(scope)?;
    let options = WriteOptions::parse(scope.query, "CreateOptions", None)?;
    let mut review = body::decode_object(scope, &options)?;
    object_lifecycle::wipe_system_fields(&mut review);
    if scope.kind.kind == "LocalSubjectAccessReview" {
        object_lifecycle::ensure_namespace(&mut review, &scope.path.namespace)?;
    }
    if !matches!(&*scope.kind.kind, "SelfSubjectReview" | "SelfSubjectRulesReview") {
        review = field_manager::update_managed_fields(scope, None, review, &scope.manager(&options.field_manager));
    }
    let admission = Admission::of(scope, AdmissionOperation::Create, None, options.dry_run);
    if let Some(admission) = &admission {
        review = admission.mutate(review).await?;
    }
    if scope.kind.kind.ends_with("AccessReview") {
        check_access(&review, scope)?;
    }
    if let Some(admission) = &admission {
        admission.validate(Some(&review)).await?;
    }
    let other = authorization::limited_user(scope.parsed);
    let mut status = match &*scope.kind.kind {
        "SelfSubjectAccessReview" => match &other {
            None => json!({"allowed": true}),
            Some(user) => review_access(scope, user, &review["spec"]),
        },
        "SubjectAccessReview" | "LocalSubjectAccessReview" => rbac::authorize(scope.server, &review["spec"]),
        "SelfSubjectRulesReview" => {
            let namespace = str_field(&review["spec"], "namespace");
            if namespace.is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            let rules = rules(scope.server, other.as_deref(), namespace);
            review["spec"] = json!({});
            review["metadata"] = json!({});
            rules
        }
        "SelfSubjectReview" => {
            let now = object_lifecycle::rfc3339(scope.server.clock().now());
            review["metadata"] = json!({"creationTimestamp": now});
            json!({"userInfo": other.map_or_else(|| scope.parsed.user.info(), |user| user.info())})
        }
        "TokenReview" => token_status(scope, &review)?,
        _ => return Err(Status::method_not_allowed()),
    };
    if scope.kind.kind.ends_with("AccessReview") {
        note_ignored_selectors(&mut status, &review["spec"]["resourceAttributes"]);
    }
    let metadata = metadata::fields_mut(&mut review);
    if scope.kind.kind != "LocalSubjectAccessReview" {
        metadata.remove("namespace");
    }
    review["status"] = status;
    reply::object(scope, 201, ReplyContent::Value(&review), negotiated)
}

/// Adds the selectors that cannot be read to the evaluation error: `BuildEvaluationError` in
/// `pkg/registry/authorization/util/helpers.go`.
fn note_ignored_selectors(status: &mut Value, attributes: &Value) {
    let raw = |name: &str| str_field(&attributes[name], "rawSelector");
    let unreadable = [
        ("fieldSelector", FieldSelector::parse(raw("fieldSelector")).is_err()),
        ("labelSelector", LabelSelector::parse(raw("labelSelector")).is_err()),
    ];
    let ignored = unreadable.into_iter().filter(|(_, unreadable)| *unreadable);
    let ignored = ignored.map(|(name, _)| format!("spec.resourceAttributes.{name} ignored due to parse error"));
    let known = status.get("evaluationError").and_then(Value::as_str).map(str::to_owned);
    let errors: Vec<String> = known.into_iter().chain(ignored).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
}

/// Returns the status of a review that another user than the administrator makes about itself.
fn review_access(scope: &RequestScope<'_>, user: &EffectiveUser, asked: &Value) -> Value {
    let mut spec = user.spec();
    for field in ["resourceAttributes", "nonResourceAttributes"] {
        if let Some(part) = asked.get(field) {
            spec[field] = part.clone();
        }
    }
    let described = rbac::authorize(scope.server, &spec);
    if described["allowed"] == json!(true) {
        described
    } else {
        json!({"allowed": authorization::is_allowed(scope.server, user, &spec)})
    }
}

/// Returns the status of a token review. As upstream, fields that the review does not determine stay as given.
fn token_status(scope: &RequestScope<'_>, review: &Value) -> Result<Value, Status> {
    let given = review.get("status").and_then(Value::as_object);
    let mut status = given.cloned().unwrap_or_default();
    status.remove("authenticated");
    let Value::Object(found) = review_token(scope, &review["spec"])? else { return Ok(Value::Object(status)) };
    for (field, value) in found {
        let is_anonymous = field == "user" && value == json!({});
        if !is_anonymous || !status.contains_key("user") {
            status.insert(field, value);
        }
    }
    Ok(Value::Object(status))
}

/// Reviews a token. The server knows its caller's token and those that it issued to service accounts.
fn review_token(scope: &RequestScope<'_>, spec: &Value) -> Result<Value, Status> {
    let token = str_field(spec, "token");
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let own = scope.request.header(http::header::AUTHORIZATION).split_once(' ').map_or("", |(_, token)| token.trim());
    let wanted: Vec<&str> = array_field(spec, "audiences").iter().filter_map(Value::as_str).collect();
    let wanted = if wanted.is_empty() { vec![ISSUER] } else { wanted };
    let (user, audiences) = match scope.server.valid_token(token) {
        Some(claims) => (claims.user(), claims.audiences),
        None if token == own => ((*scope.parsed.user).clone(), vec![ISSUER.to_owned()]),
        None => return Ok(json!({"user": {}, "error": "invalid bearer token"})),
    };
    let common: Vec<&str> = wanted.into_iter().filter(|one| audiences.iter().any(|own| own == one)).collect();
    if common.is_empty() {
        return Ok(json!({"user": {}, "error": "invalid bearer token"}));
    }
    Ok(json!({"authenticated": true, "user": user.info(), "audiences": common}))
}

/// Checks that a selector has either text or requirements.
fn check_selector(attributes: &Value, name: &str, errors: &mut ErrorList) {
    let Some(selector) = attributes.get(name).filter(|selector| !selector.is_null()) else { return };
    let shown = format!("spec.resourceAttributes.{name}");
    let path = Path::new(&shown);
    let raw = str_field(selector, "rawSelector");
    let requirements = array_field(selector, "requirements");
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let why = "may not specified at the same time as requirements";
            errors.invalid(&path.child("rawSelector"), raw, why);
        }
        (true, true) => {
            let why = format!("when {shown} is specified, requirements or rawSelector is required");
            errors.required(&path.child("requirements"), why);
        }
        _ => {}
    }
    let list = path.child("requirements");
    for (index, requirement) in requirements.iter().enumerate() {
        check_requirement(requirement, name == "labelSelector", &list.index(index), errors);
    }
}

/// Checks a requirement, whose operator need not be known: `ValidateFieldSelectorRequirement` and
/// `ValidateLabelSelectorRequirement` in `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`.
fn check_requirement(requirement: &Value, of_labels: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let key = str_field(requirement, "key");
    if key.is_empty() && !of_labels {
        errors.required(&path.child("key"), "must be specified");
    }
    let values = array_field(requirement, "values");
    match str_field(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), why);
        }
        _ => {}
    }
    if !of_labels {
        return;
    }
    for why in name_formats::qualified_name(key) {
        errors.invalid(&path.child("key"), key, why);
    }
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        for why in name_formats::label_value(value) {
            errors.invalid(&path.child("values").index(index), value, why);
        }
    }
}

fn check_access(review: &Value, scope: &RequestScope<'_>) -> Result<(), Status> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let given = |field: &str| spec.get(field).filter(|part| !part.is_null());
    let resource = given("resourceAttributes");
    let other = given("nonResourceAttributes");
    let local = scope.kind.kind == "LocalSubjectAccessReview";
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let own_names = |part: &Value| {
        let text = |field: &str| Value::from(str_field(part, field));
        BadValue::Raw(format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb")))
    };
    match (resource, other) {
        (Some(_), Some(part)) => errors.invalid(
            &path.child("nonResourceAttributes"),
            own_names(part),
            "cannot be specified in combination with resourceAttributes",
        ),
        (None, None) => errors.invalid(
            &path.child("resourceAttributes"),
            None::<&Value>,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if scope.kind.kind != "SelfSubjectAccessReview"
        && str_field(spec, "user").is_empty()
        && array_field(spec, "groups").is_empty()
    {
        errors.invalid(&path.child("user"), "", "at least one of user or group must be specified");
    }
    if let Some(attributes) = resource {
        for selector in ["fieldSelector", "labelSelector"] {
            check_selector(attributes, selector, &mut errors);
        }
    }
    let metadata = review.get("metadata").and_then(Value::as_object);
    let said = |field: &str| !matches!(field, "namespace" | "managedFields" | "creationTimestamp");
    if metadata.is_some_and(|fields| fields.keys().any(|field| said(field))) {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.invalid(&Path::new("metadata"), BadValue::Raw(go_json::metadata_json(review)), why);
    }
    if local {
        let attributes = path.child("resourceAttributes");
        let namespace = resource.map_or("", |part| str_field(part, "namespace"));
        if resource.is_some() && namespace != scope.path.namespace {
            errors.invalid(&attributes.child("namespace"), namespace, "must match metadata.namespace");
        }
        if let Some(part) = other {
            let why = "disallowed on this kind of request";
            errors.invalid(&path.child("nonResourceAttributes"), own_names(part), why);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&scope.kind.group, "", "", &errors)) }
}

/// Returns the rules of a user in a namespace: everything for the administrator, else the rights of every user and
/// those of its roles.
fn rules(server: &ApiServer, other: Option<&EffectiveUser>, namespace: &str) -> Value {
    let create =
        |group: &str, resources: &[&str]| json!({"verbs": ["create"], "apiGroups": [group], "resources": resources});
    let get = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    let mut resources = vec![
        create("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        create("authentication.k8s.io", &["selfsubjectreviews"]),
    ];
    let mut paths =
        vec![get(&authorization::PUBLIC), get(&authorization::SERVICE_ACCOUNT_ISSUER), get(&authorization::DISCOVERY)];
    match other.filter(|user| !user.groups.iter().any(|group| group == rbac::MASTERS)) {
        None => {
            resources.insert(0, json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        Some(user) => {
            let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
            let (own, own_paths) = rbac::rules_of(server, (&user.name, &groups), namespace);
            // Stored roles may also contain the rights of every user.
            for (all, own) in [(&mut resources, own), (&mut paths, own_paths)] {
                for rule in own {
                    if !all.contains(&rule) {
                        all.push(rule);
                    }
                }
            }
        }
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
