//! The requests among the entries of a transcript.

use crate::fixture::matching;
use crate::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry, is_judged};

/// Returns the requests among `entries`.
pub fn requests(entries: &[TranscriptEntry]) -> impl DoubleEndedIterator<Item = (&TranscriptEntry, &Exchange)> {
    entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Request(exchange) => Some((entry, exchange.as_ref())),
        EntryKind::Change(_) | EntryKind::Note(_) => None,
    })
}

/// Returns true for writes of the subject that fixtures cover. Leases, token requests and reviews are the subject's
/// own.
pub fn is_subject_write(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    const OWN: [&str; 4] = ["leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"];
    let actor = entry.actor();
    actor.is_subject()
        && exchange.request.is_write()
        && (!matches!(actor, Actor::Bystander(_)) || is_judged(&exchange.request.resource))
        && !OWN.contains(&exchange.request.resource.as_str())
        && exchange.request.subresource.as_deref() != Some("token")
}

/// Formats a request in one line, in the form of a request pattern: `PATCH pods/a/status 200`.
pub fn line(entry: &TranscriptEntry, exchange: &Exchange) -> String {
    use std::fmt::Write as _;
    let request = &exchange.request;
    let verb = match request.verb.as_str() {
        "create" => "POST",
        "update" => "PUT",
        "deletecollection" => "DELETE",
        other => &other.to_uppercase(),
    };
    let mut text = format!("{} {} {verb} ", matching::at(entry.at), entry.actor());
    if let Some(namespace) = request.namespace.as_deref().filter(|namespace| *namespace != "default") {
        let _ = write!(text, "{namespace}:");
    }
    text.push_str(&request.resource);
    for part in [&request.name, &request.subresource].into_iter().flatten() {
        let _ = write!(text, "/{part}");
    }
    match &exchange.reply {
        Some(reply) => {
            let _ = write!(text, " {}", reply.status);
        }
        None => text.push_str(" (no reply)"),
    }
    text
}
