//! A request with everything that is read from it: path, query, verb, users. It is read once and travels with the
//! request, as the context of a request does in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/request/{context,requestinfo}.go`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;

use super::impersonation::EffectiveUser;
use crate::crd;
use crate::json::Value;
use crate::record::Origin;
use crate::request::{ApiRequest, Query, ResourcePath, Target};
use crate::server::ApiServer;
use crate::status::Status;
use crate::user::UserInfo;

/// A request and everything that is read from it.
pub(crate) struct ParsedRequest {
    pub(crate) request: ApiRequest,
    pub(crate) target: Target,
    pub(crate) query: Query,
    /// The API verb of a request for a resource; the method in lower case of others.
    pub(crate) verb: Cow<'static, str>,
    /// The authenticated user.
    pub(crate) user: Arc<UserInfo>,
    /// The user that the request impersonates, or the refusal: of headers that name none, or of the user.
    pub(super) impersonated: Result<Option<EffectiveUser>, Status>,
    /// The verb of the constrained mode of impersonation; empty if there is none.
    pub(super) constraint: String,
    /// The user on whose behalf the request is made, if that is not the authenticated one: the impersonated one, or the
    /// one that the configuration names for the client.
    pub(super) acting: Option<EffectiveUser>,
    /// The same as the user of strategies and of admission.
    acting_info: Option<UserInfo>,
    /// The originator in the transcript.
    pub(crate) origin: Origin,
    /// The server's time when the request came.
    pub(super) received: Duration,
    /// Number of the request in the transcript, once it is there.
    pub(crate) number: Option<usize>,
    /// The authorizer's decision: the reason why the request is allowed, or its refusal.
    pub(super) decision: OnceLock<Result<String, Status>>,
}

impl ParsedRequest {
    /// Parses and authenticates a request.
    pub(crate) fn new(server: &ApiServer, request: ApiRequest) -> Self {
        let target = Target::parse(&request.path);
        let query = Query::parse(&request.query);
        let verb = verb_of(&request.method, target.resource(), &query);
        let user = server.user_of(&request);
        let origin = Origin::client(request.user_agent(), &user.name).attributed(request.attribution.clone());
        let impersonated = EffectiveUser::of(&request);
        let decision = OnceLock::new();
        let acting = match &impersonated {
            Ok(Some(user)) => Some(user.clone().with_implied_groups()),
            // The server's own requests are not restricted.
            _ if request.user_agent() == crd::USER_AGENT => None,
            _ => server.config().user_of_client.user_of(&origin).map(|name| EffectiveUser::named(&name)),
        };
        let acting_info = acting.as_ref().map(EffectiveUser::user);
        Self {
            request,
            target,
            query,
            verb,
            user,
            impersonated,
            constraint: String::new(),
            acting,
            acting_info,
            origin,
            received: server.clock().elapsed(),
            number: None,
            decision,
        }
    }

    /// Sets the user that the request impersonates, with the verb of the mode that allows it, or the refusal.
    pub(super) fn set_impersonated(&mut self, resolved: Result<(EffectiveUser, String), Status>) {
        match resolved {
            Ok((user, constraint)) => {
                self.acting_info = Some(user.user());
                self.acting = Some(user.clone());
                self.impersonated = Ok(Some(user));
                self.constraint = constraint;
            }
            Err(refusal) => {
                self.acting = None;
                self.acting_info = None;
                self.impersonated = Err(refusal);
            }
        }
    }

    /// Returns the user that the request impersonates, if it names one.
    pub(super) fn impersonated(&self) -> Option<&EffectiveUser> {
        self.impersonated.as_ref().ok()?.as_ref()
    }

    /// Returns the `UserInfo` of the user that the request is made for.
    pub(super) fn user_info(&self) -> Value {
        self.acting.as_ref().map_or_else(|| self.user.info(), EffectiveUser::info)
    }

    /// Returns the user that the request is made for.
    pub(super) fn acting_user(&self) -> &UserInfo {
        self.acting_info.as_ref().unwrap_or(&self.user)
    }

    /// Returns true for `?watch=true` and its like.
    pub(super) fn asks_for_watch(&self) -> bool {
        self.query.flag("watch").unwrap_or(false)
    }
}

/// Returns the verb of a request, as `staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go` has it;
/// `path` is that of a resource.
pub(super) fn verb_of(method: &Method, path: Option<&ResourcePath>, query: &Query) -> Cow<'static, str> {
    let Some(path) = path.filter(|path| !path.resource.is_empty()) else { return lower_case(method) };
    let watch = path.watch || (path.name.is_empty() && query.flag("watch").unwrap_or(false));
    Cow::Borrowed(match *method {
        Method::GET if watch => "watch",
        Method::GET | Method::HEAD if path.name.is_empty() => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if path.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    })
}

fn lower_case(method: &Method) -> Cow<'static, str> {
    Cow::Borrowed(match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => return Cow::Owned(method.as_str().to_ascii_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::list("GET", "/api/v1/pods", "list")]
    #[case::watch("GET", "/api/v1/pods?watch=1", "watch")]
    #[case::no_watch("GET", "/api/v1/pods?watch=0", "list")]
    #[case::old_watch("GET", "/api/v1/watch/namespaces/n/pods/p", "watch")]
    #[case::get("GET", "/api/v1/namespaces/n/pods/p?watch=1", "get")]
    #[case::head("HEAD", "/api/v1/pods", "list")]
    #[case::collection("DELETE", "/api/v1/namespaces/n/pods", "deletecollection")]
    #[case::delete("DELETE", "/api/v1/namespaces/n/pods/p", "delete")]
    #[case::options("OPTIONS", "/api/v1/pods", "")]
    #[case::path("GET", "/version?watch=1", "get")]
    #[case::other_method("PURGE", "/version", "purge")]
    fn verbs(#[case] method: &str, #[case] path: &str, #[case] verb: &str) {
        let request = ApiRequest::new(method.parse().expect("a method"), path);
        let query = Query::parse(&request.query);
        assert_eq!(verb_of(&request.method, Target::parse(&request.path).resource(), &query), verb);
    }
}
