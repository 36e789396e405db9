//! The user of a request, as authentication yields it.
//! See `staging/src/k8s.io/apiserver/pkg/authentication/user/user.go`.

use std::collections::BTreeMap;

use crate::json::{Value, json};

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserInfo {
    /// Name, such as `system:serviceaccount:default:default`.
    pub name: String,
    /// UID; empty if there is none.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The holder of the server's own token.
    pub(crate) fn administrator() -> Self {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        Self { name: "admin".to_owned(), uid: "1".to_owned(), groups, extra: BTreeMap::new() }
    }

    /// The user of requests without credentials.
    pub(crate) fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: "system:anonymous".to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// Returns the user as a `UserInfo`, as in the status of reviews.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "uid": self.uid, "groups": self.groups});
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// A user without a name.
#[cfg(test)]
pub(crate) static NO_USER: UserInfo =
    UserInfo { name: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() };
