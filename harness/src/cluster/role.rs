//! What a subject may do on a fake server: the role that it ships with, enforced.

use std::path::Path;

use serde_json::Value;

use crate::apiserver::ApiServerConfig;

/// Objects of `rbac.authorization.k8s.io`, and the service account that they are for.
///
/// On a server that has it the subject's requests are made in the account's name, and what its roles do not grant is
/// answered with 403. Requests of fixtures' steps are not confined.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    user: String,
    objects: Vec<Value>,
}

impl Role {
    /// Reads a YAML file of roles and bindings, such as `controllers/deploy/rbac.yaml`.
    ///
    /// # Errors
    ///
    /// A sentence for people: what cannot be read, or that no binding, or more than one account, is in it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("unable to read {}: {error}", file.display()))?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| format!("this is no YAML: {error}"))?;
        let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
        let mut users: Vec<String> = subjects.filter_map(account).collect();
        users.sort();
        users.dedup();
        match <[String; 1]>::try_from(users) {
            Ok([user]) => Ok(Self { user, objects }),
            Err(users) if users.is_empty() => {
                Err("no binding names a ServiceAccount with its namespace: who is it for?".to_owned())
            }
            Err(users) => Err(format!("bindings of {}: a subject is one account, give each a file", users.join(", "))),
        }
    }

    /// Its objects, to be planted on the server.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        self.objects.clone()
    }

    /// The set-up of a server that enforces `role`, if there is one.
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
    #[case::nobody(binding("a", "{kind: Group, name: everybody}"), "who is it for?")]
    #[case::no_namespace(binding("a", "{kind: ServiceAccount, name: me}"), "who is it for?")]
    #[case::two(
        [binding("a", ACCOUNT), binding("b", "{kind: ServiceAccount, name: you, namespace: here}")].join("---\n"),
        "here:me, system:serviceaccount:here:you"
    )]
    #[case::broken("a: [".to_owned(), "this is no YAML")]
    fn nobody_or_several(#[case] text: String, #[case] why: &str) {
        let error = Role::parse(&text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
