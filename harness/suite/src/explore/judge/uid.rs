//! Oracle `uid`: the subject writes to no object about which it cannot have decided, or that it has just seen gone.
//! Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::{line, requests};
use plumbline::explore::breach::Breach;
use plumbline::metadata;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, RecordedRequest, TranscriptEntry};
use serde_json::{Value, json};

use crate::explore::run::observation::subject_write;

/// Returns writes of the subject to pods and budgets that were created after the request had been sent: it cannot have
/// decided about them.
pub(super) fn unknown_objects(entries: &[TranscriptEntry]) -> Vec<Breach> {
    let mut created: BTreeMap<&str, usize> = BTreeMap::new();
    let mut breaches = Vec::new();
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        let object = change.old.as_ref().or(change.new.as_ref());
        let Some(uid) = object.and_then(|object| metadata::uid(object)) else { continue };
        if change.old.is_none() {
            created.insert(uid, entry.seq);
            continue;
        }
        let Some((sent, key)) = change.request.and_then(|seq| Some((seq, subject_write(entries.get(seq)?)?))) else {
            continue;
        };
        let concerned = matches!(change.resource.as_str(), "pods" | "poddisruptionbudgets");
        if concerned && created.get(uid).is_some_and(|born| *born > sent) {
            breaches.push(Breach {
                oracle: "uid".to_owned(),
                resource: key.resource.clone(),
                kind: format!("{} {}", key.actor, key.verb),
                at: entry.at,
                text: format!("{key} takes effect on another object that got the name after the request was sent"),
                expected: json!({ "exists": format!("{}/{}", change.resource, change.name) }),
            });
        }
    }
    breaches
}

/// Returns the first write to a pod that its sender has just read, at the same instant, and found to be another one.
pub(super) fn seen_gone(entries: &[TranscriptEntry]) -> Option<Breach> {
    let mut read: BTreeMap<(Actor, &Option<String>, &str), (&str, Duration)> = BTreeMap::new();
    requests(entries).filter(|(entry, _)| entry.actor().is_subject()).find_map(|(entry, exchange)| {
        let request = &exchange.request;
        let name = request.name.as_deref().filter(|_| request.resource == "pods")?;
        let key = (entry.actor(), &request.namespace, name);
        let seen = read.remove(&key);
        let reply = exchange.reply.as_ref()?;
        if request.verb == "get" {
            let uid = reply.body.as_ref().and_then(|pod| metadata::uid(pod)).filter(|_| reply.status == 200);
            read.extend(uid.map(|uid| (key, (uid, reply.at))));
            return None;
        }
        let ((uid, at), wanted) = (seen?, precondition(request)?);
        (request.is_write() && at == entry.at && uid != wanted).then(|| Breach {
            oracle: "uid".to_owned(),
            resource: request.resource_path(),
            kind: "seen gone".to_owned(),
            at: entry.at,
            text: format!(
                "{} is about the UID {wanted}, and the pod was read just before: {uid}",
                line(entry, exchange)
            ),
            expected: json!({ "quiet": true }),
        })
    })
}

/// Returns the UID that the object of a write must have.
fn precondition(request: &RecordedRequest) -> Option<&str> {
    let body: &Value = request.body.as_deref()?;
    body["preconditions"]["uid"].as_str().or_else(|| metadata::uid(body))
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{RecordedReply, Transcript};
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::exchange;

    #[rstest]
    #[case::the_pod_that_was_read("u", 5, false)]
    #[case::another_one("v", 5, true)]
    #[case::a_while_later("v", 6, false)]
    fn a_write_is_about_what_was_read(#[case] wanted: &str, #[case] second: u64, #[case] found: bool) {
        let transcript = Transcript::new();
        let ask = |at: u64, verb: &str, sent: Option<Value>, got: Option<Value>| {
            let request = RecordedRequest {
                verb: verb.to_owned(),
                resource: "pods".to_owned(),
                name: Some("a".to_owned()),
                body: sent.map(Into::into),
                ..RecordedRequest::default()
            };
            let at = Duration::from_secs(at);
            let reply = RecordedReply { body: got.map(Into::into), ..RecordedReply::new(at, 200) };
            exchange(&transcript, at, "taint-eviction-controller", request, reply);
        };
        ask(5, "get", None, Some(json!({"metadata": {"name": "a", "uid": "u"}})));
        ask(second, "delete", Some(json!({"preconditions": {"uid": wanted}})), None);
        assert_eq!(seen_gone(&transcript.entries()).is_some(), found);
    }
}
