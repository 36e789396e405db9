//! Classification of a request by flow schemas. See
//! `staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go`.

use http::HeaderValue;

use super::describe::verb_of;
use super::impersonation::EffectiveUser;
use crate::flow_control::Digest;
use crate::request::{ApiRequest, Query, ResourcePath, Target};
use crate::server::ApiServer;

impl ApiServer {
    /// Returns the UIDs of the flow schema that a request belongs to and of its priority level; `None` if the server
    /// has no such schema. Users are those that are impersonated, if any.
    pub(crate) fn flow_of(&self, request: &ApiRequest, target: &Target) -> Option<[HeaderValue; 2]> {
        let caller;
        let impersonated = EffectiveUser::of(request).ok().flatten();
        let (user, groups) = if let Some(user) = &impersonated {
            (&user.name, &user.groups)
        } else {
            caller = self.user_of(request);
            (&caller.name, &caller.groups)
        };
        let resource = match target {
            Target::Resource(path) if !path.resource.is_empty() => Some(path),
            Target::Resource(_) | Target::NonResource(_) => None,
        };
        let none = ResourcePath::default();
        let verb = verb_of(request, resource.unwrap_or(&none), &Query::parse(&request.query));
        let digest = Digest { user, groups, verb: &verb, path: &request.path, resource };
        self.flow_schemas().classify(&digest).map(|schema| schema.uids.clone())
    }
}
