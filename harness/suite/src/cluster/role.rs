//! Permissions of a subject on a fake server: the RBAC role it ships with, enforced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plumbline::transcript::Actor;
use plumbline_apiserver::record::Origin;
use plumbline_apiserver::{ApiServerConfig, ClientUsers};
use serde_json::Value;

/// Objects of `rbac.authorization.k8s.io` and the service accounts they are bound to.
///
/// A server that has a role runs the subject's requests as these accounts and answers 403 for everything that the roles
/// do not grant. A request with the token of an account is made by that account. In this process there are no tokens:
/// there a controller acts as the account whose name is that of its client. Everything else is done by the remaining
/// account. Requests of fixture steps are not restricted.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    user: String,
    /// Users of controllers, by the name of their client.
    controllers: BTreeMap<String, String>,
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
    /// The file is not YAML, or does not bind exactly one service account besides those of controllers.
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
    /// Returns an error if the file cannot be read or does not bind exactly one service account besides those of
    /// controllers.
    pub fn read(file: &Path) -> Result<Self, RoleError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| RoleError::Unreadable { file: file.to_owned(), why: error.to_string() })?;
        Self::parse(&text).map_err(|why| RoleError::Invalid { file: file.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| format!("invalid YAML: {}", error.without_snippet()))?;
        let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
        let users: BTreeSet<String> = subjects.filter_map(account).collect();
        let (controllers, others): (Vec<_>, Vec<_>) =
            users.into_iter().partition(|user| Actor::from_user_agent(client_of(user)).controller().is_some());
        let controllers: BTreeMap<_, _> =
            controllers.into_iter().map(|user| (client_of(&user).to_owned(), user)).collect();
        match (<[String; 1]>::try_from(others), controllers.len()) {
            (Ok([user]), _) => Ok(Self { user, controllers, objects }),
            (Err(others), 0) if others.is_empty() => {
                Err("no binding names a ServiceAccount with a namespace; add one to `subjects`".to_owned())
            }
            // Everything that the subject does is done by the account of its only controller.
            (Err(others), 1) if others.is_empty() => {
                let user = controllers.values().next().cloned().unwrap_or_default();
                Ok(Self { user, controllers, objects })
            }
            (Err(others), _) if others.is_empty() => {
                Err("the bindings name accounts of controllers only; bind the account that the subject starts with"
                    .to_owned())
            }
            (Err(others), _) => Err(format!(
                "the bindings name several accounts that are no controller's: {}; the subject starts with one of them, \
                 so use one file for each",
                others.join(", ")
            )),
        }
    }

    /// The RBAC objects to seed on the server.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        self.objects.clone()
    }

    /// Returns `config` with `role` enforced, if there is one, for a subject that authenticates: controllers have their
    /// accounts' rights only if they send their accounts' tokens.
    #[must_use]
    pub fn enforced(role: Option<&Self>, config: ApiServerConfig) -> ApiServerConfig {
        Self::restrict(role, config, |role, _| role.user.clone())
    }

    /// Returns `config` with `role` enforced, if there is one, for a subject in this process, whose clients send no
    /// tokens: controllers act as the accounts of their names.
    #[must_use]
    pub fn enforced_by_client(role: Option<&Self>, config: ApiServerConfig) -> ApiServerConfig {
        Self::restrict(role, config, |role, user_agent| {
            role.controllers.get(Origin::short_name_of(user_agent)).unwrap_or(&role.user).clone()
        })
    }

    /// Returns `config` with the rights of `account` for the subject's requests; those with the token of an account are
    /// that account's. The harness's own requests and those of unknown clients are not restricted.
    fn restrict(
        role: Option<&Self>,
        config: ApiServerConfig,
        account: impl Fn(&Self, &str) -> String + Send + Sync + 'static,
    ) -> ApiServerConfig {
        let Some(role) = role.cloned() else { return config };
        let user_of_client = ClientUsers::new(move |origin| match origin {
            Origin::Client { user_agent, .. } if user_agent.starts_with(OWN_AGENTS) => None,
            Origin::Client { user, .. } if &**user == ANONYMOUS => None,
            Origin::Client { user, .. } if user.starts_with(SERVICE_ACCOUNT) => Some(user.to_string()),
            Origin::Client { user_agent, .. } => Some(account(&role, user_agent)),
            Origin::Server | Origin::Embedder => None,
        });
        ApiServerConfig { user_of_client, ..config }
    }
}

/// Start of the user agents of fixture steps and of the server's stand-ins for controllers.
const OWN_AGENTS: &str = "plumbline/";
/// The user of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";
/// Start of the names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Returns the name of the account, which is that of the client that acts as it.
fn client_of(user: &str) -> &str {
    user.rsplit_once(':').map_or(user, |(_, name)| name)
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

    #[test]
    fn controllers_have_accounts_of_their_own() {
        let own =
            |name: &str| binding(name, &format!("{{kind: ServiceAccount, name: {name}, namespace: kube-system}}"));
        let role = Role::parse(&[binding("a", ACCOUNT), own("ttl-controller"), own("node-controller")].join("---\n"));
        let role = role.unwrap();
        assert_eq!(role.user, "system:serviceaccount:here:me");
        let of = |name: &str| (name.to_owned(), format!("system:serviceaccount:kube-system:{name}"));
        assert_eq!(role.controllers, ["ttl-controller", "node-controller"].map(of).into());
        let one = Role::parse(&own("ttl-controller")).unwrap();
        assert_eq!(one.user, "system:serviceaccount:kube-system:ttl-controller");
        let error = Role::parse(&[own("ttl-controller"), own("node-controller")].join("---\n")).unwrap_err();
        assert!(error.contains("accounts of controllers only"), "{error}");
    }

    #[rstest]
    #[case::no_account(binding("a", "{kind: Group, name: everybody}"), "no binding names a ServiceAccount")]
    #[case::no_namespace(binding("a", "{kind: ServiceAccount, name: me}"), "no binding names a ServiceAccount")]
    #[case::two(
        [binding("a", ACCOUNT), binding("b", "{kind: ServiceAccount, name: you, namespace: here}")].join("---\n"),
        "here:me, system:serviceaccount:here:you"
    )]
    #[case::broken("a: [".to_owned(), "invalid YAML")]
    fn exactly_one_account_is_required_besides_those_of_controllers(#[case] text: String, #[case] why: &str) {
        let error = Role::parse(&text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
