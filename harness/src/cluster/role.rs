//! Permissions of a subject on a fake server: the RBAC role it ships with, enforced.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::apiserver::ApiServerConfig;

/// Objects of `rbac.authorization.k8s.io` and the service account they are bound to.
///
/// A server that has a role runs the subject's requests as that account and answers 403 for everything that the roles
/// do not grant. Requests of fixture steps are not restricted.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    user: String,
    objects: Vec<Value>,
}

/// Reasons why a file of roles is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// The file cannot be read.
    #[error("unable to read {}: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's message.
        why: String,
    },
    /// The file is not YAML, or does not bind exactly one service account.
    #[error("{}: {why}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
}

impl Role {
    /// Reads a YAML file of roles and bindings, such as `controllers/deploy/rbac.yaml`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or does not bind exactly one service account.
    pub fn read(file: &Path) -> Result<Self, RoleError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| RoleError::Unreadable { file: file.to_owned(), why: error.to_string() })?;
        Self::parse(&text).map_err(|why| RoleError::Invalid { file: file.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| format!("invalid YAML: {error}"))?;
        let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
        let mut users: Vec<String> = subjects.filter_map(account).collect();
        users.sort();
        users.dedup();
        match <[String; 1]>::try_from(users) {
            Ok([user]) => Ok(Self { user, objects }),
            Err(users) if users.is_empty() => {
                Err("no binding names a ServiceAccount with a namespace; add one to `subjects`".to_owned())
            }
            Err(users) => Err(format!(
                "the bindings name several accounts: {}; a subject has one account, so use one file for each",
                users.join(", ")
            )),
        }
    }

    /// The RBAC objects to seed on the server.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        self.objects.clone()
    }

    /// Returns `config` with `role` enforced, if there is one.
    #[must_use]
    pub fn enforced(role: Option<&Self>, config: ApiServerConfig) -> ApiServerConfig {
        ApiServerConfig { subject_user: role.map(|role| role.user.clone()), ..config }
    }
}

fn account(subject: &Value) -> Option<String> {
    let text = |field: &str| subject[field].as_str().filter(|text| !text.is_empty());
    if text("kind")? != "ServiceAccount" {
        return None;
    }
    Some(format!("system:serviceaccount:{}:{}", text("namespace")?, text("name")?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn binding(name: &str, subject: &str) -> String {
        format!(
            "kind: ClusterRoleBinding\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {{name: {name}}}\n\
             roleRef: {{kind: ClusterRole, name: x, apiGroup: rbac.authorization.k8s.io}}\nsubjects: [{subject}]\n"
        )
    }

    const ACCOUNT: &str = "{kind: ServiceAccount, name: me, namespace: here}";

    #[test]
    fn several_bindings_of_one_account() {
        let role = Role::parse(&[binding("a", ACCOUNT), binding("b", ACCOUNT)].join("---\n")).unwrap();
        assert_eq!((role.user.as_str(), role.objects.len()), ("system:serviceaccount:here:me", 2));
    }

    #[rstest]
    #[case::no_account(binding("a", "{kind: Group, name: everybody}"), "no binding names a ServiceAccount")]
    #[case::no_namespace(binding("a", "{kind: ServiceAccount, name: me}"), "no binding names a ServiceAccount")]
    #[case::two(
        [binding("a", ACCOUNT), binding("b", "{kind: ServiceAccount, name: you, namespace: here}")].join("---\n"),
        "here:me, system:serviceaccount:here:you"
    )]
    #[case::broken("a: [".to_owned(), "invalid YAML")]
    fn exactly_one_account_is_required(#[case] text: String, #[case] why: &str) {
        let error = Role::parse(&text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
