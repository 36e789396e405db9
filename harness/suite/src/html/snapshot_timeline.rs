//! The timeline of a snapshot: from the text of a transcript, which has no objects, watches and causes. PURE.

use std::time::Duration;

use super::model::{EventKind, Lane, Timeline, TimelineEvent};
use super::notes::{self, millis};
use crate::duration::parse_duration;

/// A line of a transcript that begins an entry.
struct EntryLine<'a> {
    at: Duration,
    actor: &'a str,
    verb: &'a str,
    object: &'a str,
    tail: &'a str,
}

/// Returns the timeline of a transcript as text.
#[must_use]
pub(super) fn of_text(id: &str, promise: &str, rules: &[String], transcript: &str) -> Timeline {
    let mut timeline =
        Timeline { id: id.to_owned(), promise: promise.to_owned(), rules: rules.to_vec(), ..Timeline::default() };
    let lines: Vec<&str> = transcript.lines().collect();
    let entries: Vec<EntryLine<'_>> = lines.iter().filter_map(|line| entry(line)).collect();
    let mut actors: Vec<&str> = entries.iter().map(|entry| entry.actor).collect();
    actors.sort_by_key(|actor| (place(actor), *actor));
    actors.dedup();
    for line in lines {
        match entry(line) {
            Some(entry) => {
                let lane = actors.iter().position(|actor| *actor == entry.actor).unwrap_or_default();
                timeline.events.push(event(&entry, lane));
            }
            // What the request changed is indented below it.
            None => {
                if let Some(last) = timeline.events.last_mut() {
                    last.details.push(line.trim().to_owned());
                }
            }
        }
    }
    let end = entries.last().map(|entry| entry.at).unwrap_or_default();
    let noted = entries.iter().filter(|entry| entry.actor == "harness").map(|entry| (entry.at, entry.object));
    timeline.bands = notes::bands(noted, false, end);
    timeline.end = millis(end);
    timeline.total = timeline.events.len();
    timeline.lanes = actors.into_iter().map(|name| Lane { name: name.to_owned(), kind: kind_of(name) }).collect();
    timeline
}

/// Reads the first line of an entry: time, actor, verb, object, and the rest from the reply on.
fn entry(line: &str) -> Option<EntryLine<'_>> {
    let (time, rest) = line.strip_prefix("t=+")?.split_once(' ')?;
    let (actor, rest) = rest.trim_start().split_once(' ')?;
    let (verb, rest) = rest.trim_start().split_once(' ')?;
    let rest = rest.trim_start();
    let is_reply = |(at, _): &(usize, char)| {
        let word = rest[*at..].split(' ').next().unwrap_or_default();
        let starts_word = *at == 0 || rest[..*at].ends_with(' ');
        starts_word && (rest[*at..].starts_with("no reply") || (word.len() == 3 && word.parse::<u16>().is_ok()))
    };
    let end = if actor == "harness" { None } else { rest.char_indices().find(is_reply) };
    let (object, tail) = end.map_or((rest, ""), |(at, _)| rest.split_at(at));
    Some(EntryLine { at: parse_duration(time).ok()?, actor, verb, object: object.trim_end(), tail })
}

fn event(entry: &EntryLine<'_>, lane: usize) -> TimelineEvent {
    let kind = match (entry.actor, entry.verb) {
        ("harness", _) => EventKind::Note,
        (_, "GET" | "LIST") => EventKind::Read,
        (_, "WATCH") => EventKind::Watch,
        _ => EventKind::Write,
    };
    let verb = if kind == EventKind::Note { "" } else { entry.verb };
    let is_refused = entry.tail.get(..3).and_then(|code| code.parse::<u16>().ok()).is_some_and(|code| code >= 400);
    TimelineEvent {
        tail: entry.tail.to_owned(),
        failed: is_refused || entry.tail.starts_with("no reply") || entry.tail.contains("reply lost"),
        ..TimelineEvent::plain(millis(entry.at), lane, kind, verb, entry.object.to_owned())
    }
}

/// The place of an actor among the lanes.
fn place(actor: &str) -> usize {
    let order = ["user", "harness", "server", "kubelet", "informers"];
    order.iter().position(|name| *name == actor).unwrap_or(order.len())
}

fn kind_of(actor: &str) -> &'static str {
    match actor {
        "user" => "user",
        "harness" => "harness",
        "server" => "server",
        "kubelet" => "kubelet",
        "informers" => "informers",
        _ => "controller",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSCRIPT: &str = "\
t=+5s       user           DELETE nodes/n1 200
        removed
t=+9s       harness        --     the controllers crash
t=+39.5s    podgc          GET    nodes/n1 404 NotFound
        » nodes \"n1\" not found
t=+60s      podgc          DELETE nodes/n91 … nodes/n101 (11 objects) 200  grace=0
t=+60s      ttl            PATCH  nodes/200 no reply
";

    #[test]
    fn lines_become_events() {
        let timeline = of_text("podgc/a", "A promise.", &[], TRANSCRIPT);
        let lanes: Vec<&str> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(lanes, ["user", "harness", "podgc", "ttl"]);
        let events: Vec<_> = timeline
            .events
            .iter()
            .map(|one| (one.at, one.kind, one.verb.as_str(), one.object.as_str(), one.tail.as_str(), one.failed))
            .collect();
        let expected = [
            (5000, EventKind::Write, "DELETE", "nodes/n1", "200", false),
            (9000, EventKind::Note, "", "the controllers crash", "", false),
            (39_500, EventKind::Read, "GET", "nodes/n1", "404 NotFound", true),
            (60_000, EventKind::Write, "DELETE", "nodes/n91 … nodes/n101 (11 objects)", "200  grace=0", false),
            (60_000, EventKind::Write, "PATCH", "nodes/200", "no reply", true),
        ];
        assert_eq!(events, expected);
        assert_eq!(timeline.events[0].details, ["removed"]);
        let bands: Vec<_> = timeline.bands.iter().map(|band| (band.kind, band.from, band.to)).collect();
        assert_eq!(bands, [("crash", 9000, 60_000)]);
    }

    #[test]
    fn other_text_is_no_timeline() {
        let timeline = of_text("podgc/a", "", &[], "(no writes)\nt=+xs user DELETE nodes/n1 200\n");
        assert!(timeline.events.is_empty() && timeline.lanes.is_empty());
    }
}
