//! The variable `authorizer` of admission expressions, which asks whether a user may make a request. Follows
//! `staging/src/k8s.io/apiserver/pkg/cel/library/authz.go` of Kubernetes 1.36.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cel::ExecutionError;
use cel::common::types::Type;
use cel::common::value::{StaticVal, Val};

use super::shared::SharedValue;
use crate::json::{Value, json};

/// The part of a review's spec about a resource.
const ATTRIBUTES: &str = "resourceAttributes";

/// Cost of a check, which upstream counts as a call of another server.
const CHECK_COST: u64 = 350_000;

static AUTHORIZER: Type = Type::new_unspecified_type("kubernetes.authorization.Authorizer");
static PATH_CHECK: Type = Type::new_unspecified_type("kubernetes.authorization.PathCheck");
static GROUP_CHECK: Type = Type::new_unspecified_type("kubernetes.authorization.GroupCheck");
static RESOURCE_CHECK: Type = Type::new_unspecified_type("kubernetes.authorization.ResourceCheck");
static DECISION: Type = Type::new_unspecified_type("kubernetes.authorization.Decision");

/// Answers the spec of a `SubjectAccessReview`: returns the status of the review.
pub(crate) type AccessReviewer = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// The steps of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckStep {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

/// An authorizer, a check that is not complete, or a decision.
#[derive(Clone)]
struct AccessCheck {
    step: CheckStep,
    reviewer: AccessReviewer,
    /// The spec of the review as far as it is known; for a decision, the status.
    review: Value,
    /// The resource of the request: `authorizer.requestResource`.
    request_resource: Value,
}

impl fmt::Debug for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessCheck").field("step", &self.step).field("review", &self.review).finish_non_exhaustive()
    }
}

impl Val for AccessCheck {
    fn get_type(&self) -> &Type {
        match self.step {
            CheckStep::Authorizer => &AUTHORIZER,
            CheckStep::Path => &PATH_CHECK,
            CheckStep::Group => &GROUP_CHECK,
            CheckStep::Resource => &RESOURCE_CHECK,
            CheckStep::Decision => &DECISION,
        }
    }

    fn cel_type() -> &'static Type {
        &AUTHORIZER
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.step == other.step && self.review == other.review)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for AccessCheck {}

/// Returns the variable `authorizer`. `user` is the spec of a review without attributes; `request_resource` has the
/// `resourceAttributes` of the request.
pub(crate) fn authorizer(reviewer: AccessReviewer, user: Value, request_resource: Value) -> SharedValue {
    SharedValue::new(AccessCheck { step: CheckStep::Authorizer, reviewer, review: user, request_resource })
}

/// Returns the check of the request's own resource, if the value is an authorizer and the field is that one.
pub(super) fn request_resource(value: &SharedValue, field: &str) -> Option<SharedValue> {
    let check = value.downcast::<AccessCheck>()?;
    if check.step != CheckStep::Authorizer || field != "requestResource" {
        return None;
    }
    let mut check = check.clone();
    check.step = CheckStep::Resource;
    check.review["resourceAttributes"] = check.request_resource.clone();
    Some(SharedValue::new(check))
}

/// Returns the cost of a method beyond that of a call.
pub(super) fn cost(method: &str) -> u64 {
    if method == "check" { CHECK_COST } else { 0 }
}

/// Calls a method of an authorizer, check or decision; `None` if the receiver is none.
pub(super) fn call(method: &str, args: &[SharedValue]) -> Option<Result<SharedValue, ExecutionError>> {
    let (receiver, rest) = args.split_first()?;
    let check = receiver.downcast::<AccessCheck>()?;
    let texts: Vec<&str> = rest.iter().filter_map(SharedValue::as_text).collect();
    let mut next = check.clone();
    let mut set = |step: CheckStep, part: &str, field: &str, text: &str| {
        next.step = step;
        if !next.review[part].is_object() {
            next.review[part] = json!({});
        }
        next.review[part][field] = text.into();
    };
    match (check.step, method, texts.as_slice()) {
        (CheckStep::Authorizer, "path", [path]) => set(CheckStep::Path, "nonResourceAttributes", "path", path),
        (CheckStep::Authorizer, "group", [group]) => set(CheckStep::Group, ATTRIBUTES, "group", group),
        (CheckStep::Authorizer, "serviceAccount", [namespace, name]) => {
            let groups =
                ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
            let user = format!("system:serviceaccount:{namespace}:{name}");
            next.review = json!({"user": user, "groups": groups});
        }
        (CheckStep::Group, "resource", [resource]) => {
            set(CheckStep::Resource, ATTRIBUTES, "version", "*");
            set(CheckStep::Resource, ATTRIBUTES, "resource", resource);
        }
        (CheckStep::Resource, "subresource" | "namespace" | "name", [text]) => {
            set(CheckStep::Resource, ATTRIBUTES, method, text);
        }
        // Selectors only narrow a check; roles do not know them.
        (CheckStep::Resource, "fieldSelector" | "labelSelector", [_]) => {}
        (CheckStep::Path | CheckStep::Resource, "check", [verb]) => {
            let part = if check.step == CheckStep::Path { "nonResourceAttributes" } else { ATTRIBUTES };
            set(CheckStep::Decision, part, "verb", verb);
            next.review = (next.reviewer)(&next.review);
        }
        (CheckStep::Decision, "allowed", []) => {
            return Some(Ok(SharedValue::bool(next.review["allowed"] == json!(true))));
        }
        (CheckStep::Decision, "reason", []) => {
            return Some(Ok(SharedValue::text(next.review["reason"].as_str().unwrap_or_default())));
        }
        (CheckStep::Decision, "errored", []) => return Some(Ok(SharedValue::bool(false))),
        (CheckStep::Decision, "error", []) => return Some(Ok(SharedValue::text(""))),
        _ => {
            let types = args.iter().map(|arg| arg.get_type().name().to_owned()).collect();
            return Some(Err(ExecutionError::no_such_overload(method, types)));
        }
    }
    Some(Ok(SharedValue::new(next)))
}
