//! The users of requests: the one that authentication yields, and the one that a request impersonates (`kubectl --as`).
//!
//! Follows `impersonation/impersonation.go` in `staging/src/k8s.io/apiserver/pkg/endpoints/filters` of Kubernetes 1.36.

use super::rbac::MASTERS;
use crate::json::{Key, Map, Value, json};
use crate::name_formats::{dns1123_label, dns1123_subdomain};
use crate::request::{ApiRequest, unescape_path};
use crate::status::Status;
use crate::user::UserInfo;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const ANONYMOUS: &str = "system:anonymous";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Start of the names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";

/// The user on whose behalf a request is authorized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EffectiveUser {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
    pub(super) uid: String,
    pub(super) extra: Map,
}

impl EffectiveUser {
    /// Returns the user that the request wants to impersonate, if any, with the groups that it names.
    ///
    /// # Errors
    /// Groups, a UID or extra fields are given without a name.
    pub(super) fn of(request: &ApiRequest) -> Result<Option<Self>, Status> {
        if !request.headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(None);
        }
        let texts = |name: &str| -> Vec<String> {
            let values = request.headers.get_all(name).iter();
            values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
        let name = first(USER);
        let groups = texts(GROUP);
        let uid = first(UID);
        let mut extra = Map::new();
        for header in request.headers.keys() {
            if let Some(key) = header.as_str().strip_prefix(EXTRA) {
                let key = unescape_path(key).unwrap_or_else(|| key.to_owned());
                let values = extra.entry(key).or_insert_with(|| json!([]));
                if let Value::Array(values) = values {
                    values.extend(texts(header.as_str()).into_iter().map(Value::from));
                }
            }
        }
        if !name.is_empty() {
            return Ok(Some(Self { name, groups, uid, extra }));
        }
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        Err(missing_user_name(&groups, &uid, &extra))
    }

    /// Returns the user with this name, in the groups that follow from it.
    pub(super) fn named(name: &str) -> Self {
        let user = Self { name: name.to_owned(), groups: Vec::new(), uid: String::new(), extra: Map::new() };
        user.with_implied_groups()
    }

    /// Adds the groups that follow from the name.
    pub(super) fn with_implied_groups(mut self) -> Self {
        if let (true, Some((namespace, _))) = (self.groups.is_empty(), account_of(&self.name)) {
            self.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        let has = |group: &str| self.groups.iter().any(|one| one == group);
        let own = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !has(own) && !has(UNAUTHENTICATED) {
            self.groups.push(own.to_owned());
        }
        self
    }

    /// Returns the caller, unless it may do everything: the administrator and the accounts of kube-system. Upstream
    /// gives the accounts of its controllers roles; here these roles need not exist.
    pub(super) fn unless_privileged(caller: &UserInfo) -> Option<Self> {
        let UserInfo { name, uid, groups, extra } = caller;
        if groups.iter().any(|group| group == MASTERS || group == SYSTEM_ACCOUNTS) {
            return None;
        }
        let extra = extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        Some(Self { name: name.clone(), groups: groups.clone(), uid: uid.clone(), extra })
    }

    /// Returns the user as authentication would yield it.
    pub(super) fn user(&self) -> UserInfo {
        let texts = |values: &Value| -> Vec<String> {
            values.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let extra = self.extra.iter().map(|(key, values)| (key.to_string(), texts(values))).collect();
        UserInfo { name: self.name.clone(), uid: self.uid.clone(), groups: self.groups.clone(), extra }
    }

    /// Returns the user's part of an access review's spec.
    pub(super) fn spec(&self) -> Value {
        json!({"user": self.name, "groups": self.groups})
    }

    /// Returns the user as `SelfSubjectReview` shows it.
    pub(super) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = Value::Object(self.extra.clone());
        }
        info
    }
}

/// Returns namespace and name of a service account.
pub(super) fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}

/// Upstream prints the user in Go syntax.
fn missing_user_name(groups: &[String], uid: &str, extra: &Map) -> Status {
    let list = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let groups = if groups.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", list(groups)) };
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let one = |(key, values): (&Key, &Value)| {
            let values = values.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
            format!("{key:?}:[]string{{{}}}", list(&values.map(str::to_owned).collect::<Vec<_>>()))
        };
        format!("map[string][]string{{{}}}", extra.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:{extra}}} without impersonating a user name"
    ))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    /// `unescapeExtraKey` of `impersonation.go`.
    #[test]
    fn keys_of_extras_are_unescaped() {
        let mut request = ApiRequest::new(Method::GET, "/api");
        for (header, value) in [
            ("Impersonate-User", "x"),
            ("Impersonate-Extra-Acme.com%2fProject", "a"),
            ("Impersonate-Extra-scope", "b"),
            ("Impersonate-Extra-bad%zz", "c"),
        ] {
            let name = http::HeaderName::from_bytes(header.as_bytes()).expect("a name");
            request.headers.append(name, HeaderValue::from_static(value));
        }
        let user = EffectiveUser::of(&request).expect("read").expect("a user");
        assert_eq!(user.info()["extra"], json!({"acme.com/project": ["a"], "bad%zz": ["c"], "scope": ["b"]}));
    }

    #[test]
    fn groups_without_a_name_are_refused() {
        let mut request = ApiRequest::new(Method::GET, "/api");
        request.headers.insert(GROUP, HeaderValue::from_static("x"));
        let refused = EffectiveUser::of(&request).expect_err("refused");
        assert_eq!(
            refused.message,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"x\"}, Extra:map[string][]string(nil)} without impersonating a user name"
        );
    }
}
