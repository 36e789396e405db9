//! Oracle of the API server, which is a part of what histories show: dry runs change nothing, and preconditions that
//! hold refuse no eviction. Pure.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go`.

use plumbline::expect::world::{Key, ObjectStates};
use plumbline::explore::breach::Breach;
use plumbline::metadata;
use plumbline::transcript::{EntryKind, RecordedRequest, TranscriptEntry};
use serde_json::{Value, json};

use crate::explore::run::explored::ExploredRun;

/// Returns the first change by a dry run, or the first eviction that is refused for preconditions that hold.
pub(super) fn misbehaves(begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<Breach> {
    explored.entries.iter().find_map(|entry| {
        let (kind, resource, text) = match &entry.what {
            EntryKind::Change(change) => {
                let request = change.request.and_then(|seq| request_at(explored.entries, seq))?;
                let text = || format!("the dry run {} {} changes {}", request.verb, request.path, change.name);
                is_dry(request).then(|| ("dry run", change.resource.clone(), text()))?
            }
            EntryKind::Request(exchange) => {
                let request = &exchange.request;
                let refused = exchange.reply.as_ref().is_some_and(|it| it.status == 409 && it.fault.is_none());
                let evicts = request.subresource.as_deref() == Some("eviction");
                if !(refused && evicts && holds(begin, explored.entries, entry.seq)) {
                    return None;
                }
                (
                    "eviction",
                    request.resource_path(),
                    format!("{} is refused although its preconditions hold", request.path),
                )
            }
            EntryKind::Note(_) => return None,
        };
        let oracle = "server".to_owned();
        let kind = kind.to_owned();
        let at = entry.at;
        Some(Breach { oracle, resource, kind, at, text, expected: json!({ "quiet": true }) })
    })
}

fn request_at(entries: &[TranscriptEntry], seq: usize) -> Option<&RecordedRequest> {
    match &entries.get(seq)?.what {
        EntryKind::Request(exchange) => Some(&exchange.request),
        _ => None,
    }
}

/// Returns true if the request asks for a dry run in its query or in its options.
fn is_dry(request: &RecordedRequest) -> bool {
    let all = |options: &Value| options["dryRun"].as_array().is_some_and(|all| all.iter().any(|value| value == "All"));
    let body = request.body.as_deref();
    request.query_value("dryRun") == Some("All") || body.is_some_and(|body| all(body) || all(&body["deleteOptions"]))
}

/// Returns true if the preconditions of an eviction hold for its pod.
fn holds(begin: &ObjectStates, entries: &[TranscriptEntry], seq: usize) -> bool {
    let Some(request) = request_at(entries, seq) else { return false };
    let world = begin.clone().after(&entries[..seq]);
    let key = Key {
        group: String::new(),
        resource: "pods".to_owned(),
        namespace: request.namespace.clone(),
        name: request.name.clone().unwrap_or_default(),
    };
    let Some(pod) = world.get(&key) else { return false };
    let wanted = request.body.as_deref().map_or(&Value::Null, |body| &body["deleteOptions"]["preconditions"]);
    let holds = |field: &str, found: Option<&str>| wanted[field].is_null() || wanted[field].as_str() == found;
    holds("uid", metadata::uid(pod)) && holds("resourceVersion", metadata::resource_version(pod))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plumbline::transcript::{Change, ChangeKind, Origin, RecordedJson, RecordedReply, Transcript};
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::judged_by;

    fn judged(options: &Value, status: u16, changes: bool) -> Option<String> {
        let transcript = Transcript::new();
        let request = RecordedRequest {
            verb: "create".to_owned(),
            resource: "pods".to_owned(),
            subresource: Some("eviction".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some("a".to_owned()),
            body: Some(RecordedJson::from(json!({ "deleteOptions": options }))),
            ..RecordedRequest::default()
        };
        let seq = transcript.request(Duration::ZERO, Origin::client("user", ""), request);
        if changes {
            let change = Change {
                request: Some(seq),
                kind: ChangeKind::Deleted,
                group: String::new(),
                resource: "pods".to_owned(),
                namespace: Some("default".to_owned()),
                name: "a".to_owned(),
                resource_version: 8,
                old: Some(RecordedJson::from(json!({}))),
                new: None,
            };
            transcript.change(Duration::ZERO, Origin::Server, change);
        }
        transcript.reply(seq, RecordedReply::new(Duration::ZERO, status));
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}});
        let breach = judged_by("disruption", &transcript, vec![pod], |_, begin, explored| misbehaves(begin, explored));
        breach.map(|breach| breach.kind)
    }

    #[rstest]
    #[case::dry(json!({"dryRun": ["All"]}), true, Some("dry run"))]
    #[case::wet(json!({"dryRun": []}), true, None)]
    #[case::dry_without_effect(json!({"dryRun": ["All"]}), false, None)]
    fn dry_runs_change_nothing(#[case] options: Value, #[case] changes: bool, #[case] found: Option<&str>) {
        assert_eq!(judged(&options, 201, changes).as_deref(), found);
    }

    #[rstest]
    #[case::none(json!({}), 409, Some("eviction"))]
    #[case::of_this_version(json!({"preconditions": {"uid": "u", "resourceVersion": "7"}}), 409, Some("eviction"))]
    #[case::of_another_version(json!({"preconditions": {"resourceVersion": "6"}}), 409, None)]
    #[case::of_another_pod(json!({"preconditions": {"uid": "v"}}), 409, None)]
    #[case::refused_by_a_budget(json!({}), 429, None)]
    fn preconditions_that_hold_refuse_nothing(
        #[case] options: Value,
        #[case] status: u16,
        #[case] found: Option<&str>,
    ) {
        assert_eq!(judged(&options, status, false).as_deref(), found);
    }
}
