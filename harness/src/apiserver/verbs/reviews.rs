//! Kinds that answer a question and are not kept: access reviews, token reviews, bindings.
//!
//! Whoever gets in may do everything: the server has no authorization of its own.

use serde_json::{Value, json};

use super::body::encode;
use super::options::WriteOptions;
use super::scope::Scope;
use crate::apiserver::kinds::{ErrorList, Path, meta};
use crate::apiserver::lifecycle;
use crate::apiserver::request::Reply;
use crate::apiserver::status::Status;

const USER: &str = "admin";
const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

impl Scope<'_> {
    /// POST of a kind that is not stored.
    pub(crate) fn review(&self) -> Result<Reply, Status> {
        if self.kind.kind == "Binding" {
            return self.bind(None);
        }
        let negotiated = self.negotiate()?;
        let options = WriteOptions::parse(&self.query, "CreateOptions", None)?;
        let mut review = self.decode(&options)?;
        let manager = self.manager(&options.field_manager);
        if self.kind.kind.ends_with("AccessReview") {
            check_access(&review, &self.kind.group)?;
        }
        let status = match &*self.kind.kind {
            "SelfSubjectAccessReview" => json!({"allowed": true}),
            "SubjectAccessReview" | "LocalSubjectAccessReview" => json!({"allowed": is_master(&review)}),
            "SelfSubjectRulesReview" => {
                review["spec"] = json!({});
                rules()
            }
            "SelfSubjectReview" => {
                let now = lifecycle::rfc3339(self.server.clock().now());
                lifecycle::metadata_mut(&mut review).insert("creationTimestamp".to_owned(), now.into());
                json!({"userInfo": {"username": USER, "uid": "1", "groups": GROUPS}})
            }
            "TokenReview" => json!({
                "authenticated": true,
                "user": {"username": USER, "uid": "1", "groups": GROUPS},
                "audiences": ["https://kubernetes.default.svc"],
            }),
            _ => return Err(Status::method_not_allowed()),
        };
        let mut review = match &*self.kind.kind {
            "SelfSubjectReview" | "SelfSubjectRulesReview" => review,
            _ => self.manage(None, review, &manager),
        };
        lifecycle::metadata_mut(&mut review);
        review["status"] = status;
        Ok(encode(201, &review, negotiated.media))
    }
}

/// Whether a review is about somebody who may do everything; others may do nothing.
fn is_master(review: &Value) -> bool {
    let groups = review.pointer("/spec/groups").and_then(Value::as_array);
    review.pointer("/spec/user").is_some_and(|user| user == USER)
        || groups.is_some_and(|groups| groups.iter().any(|group| group == GROUPS[0]))
}

fn check_access(review: &Value, group: &str) -> Result<(), Status> {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let (resource, other) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    let given = |part: Option<&Value>| part.is_some_and(|part| !part.is_null());
    let mut errors = ErrorList::new();
    if given(resource) == given(other) {
        let path = Path::new("spec");
        let (field, detail) = if given(resource) {
            ("nonResourceAttributes", "cannot be specified in combination with resourceAttributes")
        } else {
            ("resourceAttributes", "exactly one of nonResourceAttributes or resourceAttributes must be specified")
        };
        let value = spec.get(field).cloned().unwrap_or(Value::Null);
        errors.invalid(&path.child(field), value, detail);
    }
    let metadata = review.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if !meta::is_empty(Some(&metadata)) {
        errors.invalid(&Path::new("metadata"), metadata, "must be empty");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(group, "", "", &errors)) }
}

fn rules() -> Value {
    let create =
        |group: &str, resources: &[&str]| json!({"verbs": ["create"], "apiGroups": [group], "resources": resources});
    let get = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    json!({
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            create("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            create("authentication.k8s.io", &["selfsubjectreviews"]),
        ],
        "nonResourceRules": [
            get(&["/.well-known", "/.well-known/*"]),
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
            get(&["/healthz", "/livez", "/readyz", "/version", "/version/"]),
            get(&["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
                "/version/"]),
        ],
        "incomplete": false,
    })
}
