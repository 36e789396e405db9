//! The request as admission sees it (`staging/src/k8s.io/apiserver/pkg/admission/attributes.go`). PURE.

use crate::json::{Value, json};
use crate::metadata;
use crate::status::{GroupResource, Status};

/// The API group of the configurations.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
    Connect,
}

impl AdmissionOperation {
    /// Returns the name in rules and reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Gvk {
    pub(super) fn to_json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// A group, version and resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gvr {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
}

impl Gvr {
    pub(super) fn to_json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "resource": self.resource})
    }
}

/// A request that is admitted, with its objects in the version of the request.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    pub(crate) operation: AdmissionOperation,
    pub(crate) kind: Gvk,
    pub(crate) resource: Gvr,
    pub(crate) subresource: String,
    pub(crate) name: String,
    /// The namespace; that of a namespace is its name.
    pub(crate) namespace: String,
    /// The user as a `UserInfo`.
    pub(crate) user: Value,
    pub(crate) dry_run: bool,
    /// The options, such as `CreateOptions`.
    pub(crate) options: Value,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
}

impl Attributes {
    /// Returns true for the configurations of admission themselves, so that no mistake in them is permanent.
    pub(super) fn is_exempt(&self) -> bool {
        self.kind.group == GROUP
            && matches!(
                self.kind.kind.as_str(),
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }

    /// Returns true for reviews of tokens and rights, which policies do not see:
    /// `pkg/kubeapiserver/admission/exclusion/resources.go`.
    fn is_hidden_from_policies(&self) -> bool {
        matches!(&*self.resource.group, "authentication.k8s.io" | "authorization.k8s.io")
            && self.subresource.is_empty()
            && self.resource.resource.ends_with("reviews")
    }

    /// Returns true if policies decide about the request.
    pub(super) fn is_seen_by_policies(&self) -> bool {
        !self.is_hidden_from_policies()
    }

    /// Returns true if the request is about a namespace object.
    pub(super) fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    /// Returns the refusal of a plugin: `admission.NewForbidden`.
    pub(super) fn forbidden(&self, why: &str) -> Status {
        let object = self.object.as_ref();
        let given = |text: fn(&Value) -> &str| object.map(text).filter(|text| !text.is_empty());
        let named = Some(self.name.as_str()).filter(|name| !name.is_empty());
        let name = named.or_else(|| given(metadata::name)).or_else(|| given(metadata::generate_name));
        let resource = GroupResource::new(&self.resource.group, &self.resource.resource);
        Status::forbidden(resource, name.unwrap_or("Unknown"), why)
    }
}
