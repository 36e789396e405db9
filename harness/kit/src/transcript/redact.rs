//! Replaces values that differ from run to run by stable names: uids, resource versions, times.
//!
//! - a uid becomes `[uid-a]` after the object's name; another object of that name is `[uid-a#2]`
//! - a resource version becomes `[rv-a@3]`: the third version of `a` in the transcript
//! - a time becomes `t=+40s`, relative to the clock's epoch

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{EntryKind, RecordedJson, TranscriptEntry};
use crate::metadata;

/// The names of all uids and resource versions of one transcript.
#[derive(Debug, Default)]
pub struct Redactions {
    epoch: Timestamp,
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    uses: BTreeMap<String, usize>,
}

/// Length of a uid that a server generated.
const UID_LENGTH: usize = 36;

/// Returns the objects that changes and replies have, in order.
fn objects(entries: &[TranscriptEntry]) -> impl Iterator<Item = &Value> {
    entries.iter().flat_map(|entry| {
        let [one, other] = match &entry.what {
            EntryKind::Change(change) => [change.old.as_deref(), change.new.as_deref()],
            EntryKind::Request(exchange) => [exchange.reply.as_ref().and_then(|reply| reply.body.as_deref()), None],
            EntryKind::Note(_) => [None, None],
        };
        one.into_iter().chain(other)
    })
}

impl Redactions {
    /// Collects the names from `entries` in order, then from the `initial` objects, so that the same history gets the
    /// same names.
    #[must_use]
    pub fn collect(epoch: Timestamp, initial: &[RecordedJson], entries: &[TranscriptEntry]) -> Self {
        Self::of(epoch, objects(entries).chain(initial.iter().map(|object| &**object)))
    }

    /// Collects the names from `entries` object by object, so that histories get the same names that differ only in
    /// the order of what happens to different objects.
    #[must_use]
    pub fn collect_by_object(epoch: Timestamp, entries: &[TranscriptEntry]) -> Self {
        let mut all: Vec<&Value> = objects(entries).collect();
        all.sort_by_key(|object| (metadata::namespace(object), metadata::name(object)));
        Self::of(epoch, all.into_iter())
    }

    fn of<'a>(epoch: Timestamp, objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut all = Self { epoch, ..Self::default() };
        let mut versions: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for object in objects {
            let (Some(name), Some(uid)) = (metadata::text(object, "name"), metadata::uid(object)) else { continue };
            all.name(uid, short_name(object, name));
            if let Some(version) = metadata::resource_version(object).and_then(|version| version.parse().ok()) {
                versions.entry(uid.to_owned()).or_default().insert(version);
            }
        }
        for (uid, versions) in versions {
            for (index, version) in versions.into_iter().enumerate() {
                let label = format!("{}@{}", all.uids[&uid], index + 1);
                all.versions.insert(version.to_string(), label);
            }
        }
        all
    }

    fn name(&mut self, uid: &str, name: String) {
        if self.uids.contains_key(uid) {
            return;
        }
        let uses = self.uses.entry(name.clone()).or_default();
        *uses += 1;
        let label = if *uses == 1 { name } else { format!("{name}#{uses}") };
        self.uids.insert(uid.to_owned(), label);
    }

    /// Returns `[uid-a]`, or `[uid-unknown]` for a uid that no object of the transcript has.
    #[must_use]
    pub fn uid(&self, uid: &str) -> String {
        format!("[uid-{}]", self.uids.get(uid).map_or("unknown", String::as_str))
    }

    /// Formats a message after `»`: in one line, with known uids replaced.
    #[must_use]
    pub fn message(&self, text: &str) -> String {
        format!("» {}", self.text(text).replace('\n', "\\n"))
    }

    /// Returns `[rv-a@3]`, or `[rv-other]` for a version that no object of the transcript has.
    #[must_use]
    pub fn resource_version(&self, version: &str) -> String {
        match self.versions.get(version) {
            Some(label) => format!("[rv-{label}]"),
            None if version.is_empty() || version == "0" => format!("{version:?}"),
            None => "[rv-other]".to_owned(),
        }
    }

    /// Replaces every known uid in `text`, for messages of Status bodies.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let ends_word = |character: char| !(character.is_ascii_alphanumeric() || character == '-');
        let mut out = String::with_capacity(text.len());
        // Word by word, because there may be thousands of uids.
        for piece in text.split_inclusive(ends_word) {
            let word = piece.strip_suffix(ends_word).unwrap_or(piece);
            // Names may end with a uid.
            let at = word.len().saturating_sub(UID_LENGTH);
            let known = [0, at].into_iter().find(|at| self.uids.contains_key(&word[*at..]));
            if let Some(at) = known {
                out.push_str(&word[..at]);
                out.push_str(&self.uid(&word[at..]));
                out.push_str(&piece[word.len()..]);
            } else {
                out.push_str(piece);
            }
        }
        out
    }

    /// Formats a JSON value in one line. Times and uids are replaced by their names; plain words lose their quotes.
    #[must_use]
    pub fn value(&self, value: &Value) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                format!("[{}]", items.iter().map(|item| self.value(item)).collect::<Vec<_>>().join(", "))
            }
            Value::Object(fields) => {
                let mut out = String::from("{");
                for (index, (key, item)) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    let text = if key == "resourceVersion" {
                        self.resource_version(item.as_str().unwrap_or_default())
                    } else {
                        self.value(item)
                    };
                    let _ = write!(out, "{separator}{key}: {text}");
                }
                out.push('}');
                out
            }
            plain => plain.to_string(),
        }
    }

    /// Replaces the times, uids and resource versions in an object. Leaves out `managedFields`, which repeat the rest.
    #[must_use]
    pub fn object(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(
                self.moment(text)
                    .unwrap_or_else(|| if self.uids.contains_key(text) { self.uid(text) } else { self.text(text) }),
            ),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.object(item)).collect()),
            Value::Object(fields) => {
                let field = |(key, item): (&String, &Value)| match (key.as_str(), item.as_str()) {
                    ("managedFields", _) => None,
                    ("resourceVersion", Some(version)) => Some((key.clone(), self.resource_version(version).into())),
                    _ => Some((key.clone(), self.object(item))),
                };
                Value::Object(fields.iter().filter_map(field).collect())
            }
            plain => plain.clone(),
        }
    }

    fn string(&self, text: &str) -> String {
        if let Some(moment) = self.moment(text) {
            return moment;
        }
        if self.uids.contains_key(text) {
            return self.uid(text);
        }
        let plain = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "\",:{}[]".contains(c));
        if plain && text.parse::<f64>().is_err() { text.to_owned() } else { format!("{:?}", self.text(text)) }
    }

    /// Formats an RFC 3339 time as `t=+40s`; `None` if `text` is not a time.
    #[must_use]
    pub fn moment(&self, text: &str) -> Option<String> {
        if text.len() < 20 || !text.as_bytes()[0].is_ascii_digit() || text.as_bytes()[10] != b'T' {
            return None;
        }
        let moment: Timestamp = text.parse().ok()?;
        let offset = moment.duration_since(self.epoch);
        let sign = if offset.as_millis() < 0 { '-' } else { '+' };
        Some(format!("t={sign}{}", seconds(offset.unsigned_abs())))
    }
}

/// Shortens an Event's generated name to its reason.
fn short_name(object: &Value, name: &str) -> String {
    if object["kind"] == "Event" {
        format!("event-{}", object["reason"].as_str().unwrap_or_default())
    } else {
        name.to_owned()
    }
}

/// Formats an offset from the epoch: `t=+40s`, `t=+39.999s`.
#[must_use]
pub fn at(offset: Duration) -> String {
    format!("t=+{}", seconds(offset))
}

/// Formats seconds with as many decimals as needed, at most three: `40s`, `39.999s`. Parts of a millisecond, which only
/// real clocks show, are cut off.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        return format!("{}s", duration.as_secs());
    }
    let decimals = format!("{:03}", duration.subsec_millis());
    format!("{}.{}s", duration.as_secs(), decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_read_well() {
        let redactions = Redactions { epoch: crate::time::epoch(), ..Redactions::default() };
        let value =
            json!({"a": "2030-01-01T00:00:40Z", "b": ["x", "two words", "15", true], "c": "2029-12-31T23:58:15Z"});
        assert_eq!(redactions.value(&value), r#"{a: t=+40s, b: [x, "two words", "15", true], c: t=-105s}"#);
        let moment = |text: &str| redactions.moment(text);
        assert_eq!(moment("2029-12-31T23:59:59.999999Z").as_deref(), Some("t=+0s"), "less than a millisecond is none");
    }

    #[test]
    fn objects_get_the_same_names() {
        let uid = "0b6f8f4c-5b0c-4d7e-8a59-000000000001";
        let object = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": "7", "managedFields": [{}]},
            "status": {"since": "2030-01-01T00:00:40Z", "n": 1, "text": format!("of {uid}")}});
        let names = Redactions::collect(crate::time::epoch(), &[object.clone().into()], &[]);
        let expected = json!({"metadata": {"name": "a", "uid": "[uid-a]", "resourceVersion": "[rv-a@1]"},
            "status": {"since": "t=+40s", "n": 1, "text": "of [uid-a]"}});
        assert_eq!(names.object(&object), expected);
    }

    #[test]
    fn seconds_keep_what_counts() {
        assert_eq!(at(Duration::from_millis(39_990)), "t=+39.99s");
        assert_eq!(at(Duration::from_secs(121)), "t=+121s");
        assert_eq!(at(Duration::from_nanos(10_001_703_539)), "t=+10.001s");
        assert_eq!(at(Duration::from_nanos(39_999_999_999)), "t=+39.999s", "never later than it was");
        assert_eq!(at(Duration::from_nanos(40_000_000_001)), "t=+40s");
    }
}
