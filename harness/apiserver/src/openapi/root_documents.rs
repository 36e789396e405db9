//! The small OpenAPI documents of paths without resources: the roots, each built-in group, `/version`, OpenID.
//! See `staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go`.

use crate::json::{Map, Value, json};
use crate::registry::Registry;

const DISCOVERY: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// The description of one path.
pub(super) struct RootDocument {
    /// Name of the document in the index.
    pub(super) name: String,
    tag: String,
    operation: String,
    description: &'static str,
    produced: &'static [&'static str],
}

/// Returns all of these documents.
pub(super) fn documents(registry: &Registry) -> Vec<RootDocument> {
    let one = |name: &str, tag: &str, operation: &str, description, produced| RootDocument {
        name: name.to_owned(),
        tag: tag.to_owned(),
        operation: operation.to_owned(),
        description,
        produced,
    };
    let mut all = vec![
        one("api", "core", "getCoreAPIVersions", "versions of the core API", &DISCOVERY),
        one("apis", "apis", "getAPIVersions", "groups and their versions", &DISCOVERY),
        one("version", "version", "getCodeVersion", "version of the server", &DISCOVERY[..1]),
        one(
            ".well-known/openid-configuration",
            "WellKnown",
            "getServiceAccountIssuerOpenIDConfiguration",
            "who signs the tokens of service accounts",
            &DISCOVERY[..1],
        ),
        one(
            "openid/v1/jwks",
            "openid",
            "getServiceAccountIssuerOpenIDKeyset",
            "the keys that tokens of service accounts are signed with",
            &["application/jwk-set+json"],
        ),
    ];
    let built_in = |group: &str| registry.kinds().any(|kind| kind.group == group && kind.custom.is_none());
    for group in registry.groups().filter(|group| !group.is_empty() && built_in(group)) {
        let tag = camel(group);
        let operation = format!("get{}{}APIGroup", tag[..1].to_ascii_uppercase(), &tag[1..]);
        all.push(one(&format!("apis/{group}"), &tag, &operation, "versions of the group", &DISCOVERY));
    }
    all
}

/// Returns a group's name in operation IDs: `rbac.authorization.k8s.io` becomes `rbacAuthorization`.
fn camel(group: &str) -> String {
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut parts = group.split('.');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let mut letters = part.chars();
        let head = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &head.into_iter().chain(letters).collect::<String>()
    })
}

impl RootDocument {
    /// Returns the document's text.
    pub(super) fn text(&self, info: &Value) -> String {
        let content: Map =
            self.produced.iter().map(|media| ((*media).to_owned(), json!({"schema": {"type": "object"}}))).collect();
        let get = json!({
            "tags": [self.tag], "description": self.description, "operationId": self.operation,
            "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
        });
        let path = format!("/{}/", self.name);
        json!({"openapi": "3.0.0", "info": info, "paths": {path: {"get": get}}, "components": {}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("apps", "apps")]
    #[case("rbac.authorization.k8s.io", "rbacAuthorization")]
    #[case("flowcontrol.apiserver.k8s.io", "flowcontrolApiserver")]
    fn groups_in_operations(#[case] group: &str, #[case] expected: &str) {
        assert_eq!(camel(group), expected);
    }
}
