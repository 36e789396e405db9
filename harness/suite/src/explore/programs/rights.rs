//! The rights that a program needs for its requests. Pure.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::transcript::{Attributed as _, EntryKind, RecordedRequest, TranscriptEntry};
use serde::{Deserialize, Serialize};

/// A resource to which the program needs rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedResource {
    /// API group; empty for the core group.
    pub group: String,
    /// `deployments`, `deployments/status`
    pub resource: String,
}

/// The verbs that a program has used, by resource.
pub type UsedRights = BTreeSet<(UsedResource, String)>;

/// Returns the rights that the program's requests need, also those of its leader's lock.
#[must_use]
pub fn used_rights(entries: &[TranscriptEntry]) -> UsedRights {
    let requests = entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Request(exchange) if entry.actor().is_subject() => Some(&exchange.request),
        _ => None,
    });
    let of_resources = requests.filter(|request| !request.resource.is_empty());
    let right = |request: &RecordedRequest| {
        let resource = UsedResource { group: request.group.clone(), resource: request.resource_path() };
        (resource, request.verb.clone())
    };
    of_resources.map(right).collect()
}

/// Rights to one resource, as a report has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedRight {
    /// The resource.
    #[serde(flatten)]
    pub on: UsedResource,
    /// The verbs.
    pub verbs: Vec<String>,
}

/// Returns the rights by resource.
#[must_use]
pub fn by_resource(rights: &UsedRights) -> Vec<ReportedRight> {
    let mut found: BTreeMap<&UsedResource, Vec<String>> = BTreeMap::new();
    for (resource, verb) in rights {
        found.entry(resource).or_default().push(verb.clone());
    }
    found.into_iter().map(|(on, verbs)| ReportedRight { on: on.clone(), verbs }).collect()
}

impl ReportedRight {
    /// Returns the right in a line: `deployments.apps: get, list`.
    #[must_use]
    pub fn line(&self) -> String {
        let UsedResource { group, resource } = &self.on;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let (name, subresource) = resource
            .split_once('/')
            .map_or((&**resource, String::new()), |(name, subresource)| (name, format!("/{subresource}")));
        format!("{name}{group}{subresource}: {}", self.verbs.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{Actor, Transcript};

    use super::*;

    #[test]
    fn rights_are_those_of_the_requests() {
        let transcript = Transcript::new();
        let request = |verb: &str, group: &str, resource: &str, subresource: Option<&str>| RecordedRequest {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            ..RecordedRequest::default()
        };
        let at = std::time::Duration::ZERO;
        let program = || Actor::Bystander("manager".to_owned());
        let _ = transcript.request(at, program(), request("list", "apps", "deployments", None));
        let _ = transcript.request(at, program(), request("get", "apps", "deployments", None));
        let _ = transcript.request(at, program(), request("update", "apps", "deployments", Some("status")));
        let _ = transcript.request(at, program(), request("get", "", "", None));
        let _ = transcript.request(at, Actor::User, request("delete", "", "pods", None));
        let rights = transcript.with(used_rights);
        let lines: Vec<String> = by_resource(&rights).iter().map(ReportedRight::line).collect();
        assert_eq!(lines, ["deployments.apps: get, list", "deployments.apps/status: update"]);
    }
}
