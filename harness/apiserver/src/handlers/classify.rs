//! Classification of a request by flow schemas. See
//! `staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go`.

use http::HeaderValue;

use super::parsed_request::ParsedRequest;
use crate::flow_control::Digest;
use crate::server::ApiServer;

impl ApiServer {
    /// Returns the UIDs of the flow schema that a request belongs to and of its priority level; `None` if the server
    /// has no such schema. Users are those that are impersonated, if any.
    pub(crate) fn flow_of(&self, parsed: &ParsedRequest) -> Option<[HeaderValue; 2]> {
        let (user, groups) = match parsed.impersonated() {
            Some(user) => (&user.name, &user.groups),
            None => (&parsed.user.name, &parsed.user.groups),
        };
        let resource = parsed.target.resource().filter(|path| !path.resource.is_empty());
        let digest = Digest { user, groups, verb: &parsed.verb, path: &parsed.request.path, resource };
        self.flow_schemas().classify(&digest).map(|schema| schema.uids.clone())
    }
}
