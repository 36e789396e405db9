//! Timelines as a trace for `ui.perfetto.dev`: a process per fixture, a thread per lane.
//!
//! The format is Chrome's JSON trace events. Slices of a thread nest or do not touch: a moment of an actor is a slice,
//! and its requests are slices inside; those whose reply comes later have a thread of their own if they would overlap.
//! Arrows from cause to effect are flows. Virtual time has many events at one instant, so they are drawn
//! [`STEP`] microseconds apart, in their order; the argument `at` has the exact time.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::model::{EventKind, Timeline, TimelineEvent};
use super::timeline;
use crate::fixture::Fixture;
use crate::report::{Event, Reporter};

/// Format of the trace's own fields.
pub const TRACE_FORMAT: &str = "plumbline-trace/v1";

/// Distance of events of one instant, in microseconds.
const STEP: u64 = 10;
/// Duration of events that take no time, in microseconds.
const LENGTH: u64 = 8;

/// Writes the trace when the run has ended.
pub struct Perfetto<W> {
    out: W,
    fixtures: BTreeMap<String, Fixture>,
    /// The timelines without objects, by id.
    timelines: BTreeMap<String, Timeline>,
}

impl<W: Write> Perfetto<W> {
    /// Creates a reporter for a run of `fixtures`.
    pub fn new(out: W, fixtures: &[Fixture]) -> Self {
        let fixtures = fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.clone())).collect();
        Self { out, fixtures, timelines: BTreeMap::new() }
    }

    fn write(&mut self) -> io::Result<()> {
        let head = json!({"format": TRACE_FORMAT});
        write!(self.out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{head},\"traceEvents\":[")?;
        let (mut flows, mut separator) = (0, "\n");
        for (timeline, process) in self.timelines.values().zip(1..) {
            for event in trace(timeline, process, flows) {
                write!(self.out, "{separator}{event}")?;
                separator = ",\n";
            }
            flows += timeline.arrows.len() as u64;
        }
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }
}

impl<W: Write> Reporter for Perfetto<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => Ok(()),
            Event::Finished(judged) => {
                let mut timeline = timeline(self.fixtures.get(&judged.report.id), judged);
                for event in &mut timeline.events {
                    (event.request, event.changes) = (None, Vec::new());
                }
                self.timelines.insert(timeline.id.clone(), timeline);
                Ok(())
            }
            Event::Ended(_) => self.write(),
        }
    }
}

/// A slice of a thread.
#[derive(Clone, Debug)]
struct Slice {
    begin: u64,
    end: u64,
    name: String,
    category: &'static str,
    arguments: Value,
    inner: Vec<Slice>,
}

/// Returns the trace events of a timeline. `first_flow` is the number of flows before it.
fn trace(timeline: &Timeline, process: u64, first_flow: u64) -> Vec<Value> {
    let starts = starts(timeline);
    let mut threads = ThreadWriter { process, out: Vec::new(), threads: 0, places: BTreeMap::new() };
    let name = format!("{} ({})", timeline.id, timeline.outcome);
    threads.metadata("process_name", 0, &json!({"name": name}));
    threads.metadata("process_sort_index", 0, &json!({"sort_index": process}));
    threads.lane("checks", checks(timeline), None);
    threads.lane("faults", faults(timeline), None);
    for (index, lane) in timeline.lanes.iter().enumerate() {
        let events = timeline.events.iter().enumerate().filter(|(_, event)| event.lane == index);
        threads.lane(&lane.name, moments(events, &starts), Some(&starts));
    }
    threads.flows(timeline, &starts, first_flow);
    threads.out
}

/// Returns the begin of each event in the trace, in microseconds.
fn starts(timeline: &Timeline) -> Vec<u64> {
    let mut next = 0;
    let start = |event: &TimelineEvent| {
        let start = next.max(event.at.saturating_mul(1000));
        next = start + STEP;
        start
    };
    timeline.events.iter().map(start).collect()
}

fn checks(timeline: &Timeline) -> Vec<Slice> {
    let checks = timeline.steps.iter().filter(|step| step.kind != "do" || step.verdict == "fail");
    let slice = |step: &super::model::StepMark| Slice {
        begin: step.from * 1000,
        end: (step.to * 1000).max(step.from * 1000 + LENGTH),
        name: format!("{} {}: {}", step.kind, step.text, step.verdict),
        category: "check",
        arguments: json!({"line": step.line, "verdict": step.verdict}),
        inner: Vec::new(),
    };
    checks.map(slice).collect()
}

fn faults(timeline: &Timeline) -> Vec<Slice> {
    let slice = |band: &super::model::Band| Slice {
        begin: band.from * 1000,
        end: (band.to * 1000).max(band.from * 1000 + LENGTH),
        name: band.text.clone(),
        category: "fault",
        arguments: json!({"kind": band.kind}),
        inner: Vec::new(),
    };
    timeline.bands.iter().map(slice).collect()
}

/// Groups the events of a lane by instant.
fn moments<'a>(events: impl Iterator<Item = (usize, &'a TimelineEvent)>, starts: &[u64]) -> Vec<Slice> {
    let mut out: Vec<Slice> = Vec::new();
    let mut open: Option<(u64, Slice)> = None;
    for (index, event) in events {
        let begin = starts[index];
        let end = event.replied.map_or(begin + LENGTH, |replied| (replied * 1000).max(begin + LENGTH));
        let slice = event_slice(event, begin, end);
        if event.replied.is_some() {
            out.push(slice);
            continue;
        }
        match &mut open {
            Some((at, moment)) if *at == event.at => {
                moment.end = end + 1;
                moment.inner.push(slice);
            }
            _ => {
                out.extend(open.take().map(|(_, moment)| moment));
                let name = format!("t=+{} ms", event.at);
                let arguments = json!({});
                let inner = vec![slice];
                open = Some((event.at, Slice { begin, end: end + 1, name, category: "moment", arguments, inner }));
            }
        }
    }
    out.extend(open.map(|(_, moment)| moment));
    out.sort_by_key(|slice| (slice.begin, slice.end));
    out
}

fn event_slice(event: &TimelineEvent, begin: u64, end: u64) -> Slice {
    let category = match event.kind {
        EventKind::Write => "write",
        EventKind::Read => "read",
        EventKind::Watch => "watch",
        EventKind::Delivery => "delivery",
        EventKind::Change => "change",
        EventKind::Note => "note",
    };
    let name = [event.verb.as_str(), &event.object].into_iter().filter(|part| !part.is_empty());
    let mut arguments = json!({"at": format!("{} ms", event.at)});
    for (key, value) in [("reply", event.reply.clone()), ("fault", event.fault.clone())] {
        if let Some(value) = value {
            arguments[key] = value.into();
        }
    }
    if !event.details.is_empty() {
        arguments["details"] = event.details.join("\n").into();
    }
    let name = name.collect::<Vec<_>>().join(" ");
    Slice { begin, end, name, category, arguments, inner: Vec::new() }
}

/// Writes the threads of a process.
struct ThreadWriter {
    process: u64,
    out: Vec<Value>,
    threads: u64,
    /// The thread of each event, by its begin.
    places: BTreeMap<u64, u64>,
}

impl ThreadWriter {
    fn metadata(&mut self, name: &str, thread: u64, arguments: &Value) {
        self.out.push(json!({"ph": "M", "name": name, "pid": self.process, "tid": thread, "args": arguments}));
    }

    /// Writes slices, which are ordered by begin, to as few threads as do not let two of them overlap.
    fn lane(&mut self, name: &str, slices: Vec<Slice>, starts: Option<&[u64]>) {
        let first = self.threads + 1;
        let mut ends: Vec<u64> = Vec::new();
        for slice in slices {
            let free = ends.iter().position(|end| *end <= slice.begin);
            let row = free.unwrap_or(ends.len());
            if free.is_none() {
                ends.push(0);
            }
            ends[row] = slice.end;
            self.slice(&slice, first + row as u64, starts.is_some());
        }
        for row in 0..ends.len() {
            let thread = first + row as u64;
            let name = if row == 0 { name.to_owned() } else { format!("{name} ({})", row + 1) };
            self.metadata("thread_name", thread, &json!({"name": name}));
            self.metadata("thread_sort_index", thread, &json!({"sort_index": thread}));
        }
        self.threads += ends.len() as u64;
    }

    fn slice(&mut self, slice: &Slice, thread: u64, has_flows: bool) {
        self.out.push(json!({
            "ph": "X", "name": slice.name, "cat": slice.category, "pid": self.process, "tid": thread, "ts": slice.begin,
            "dur": slice.end - slice.begin, "args": slice.arguments,
        }));
        if has_flows {
            self.places.insert(slice.begin, thread);
        }
        for inner in &slice.inner {
            self.slice(inner, thread, has_flows);
        }
    }

    /// Writes an arrow as the two ends of a flow, each inside its slice.
    fn flows(&mut self, timeline: &Timeline, starts: &[u64], first_flow: u64) {
        for (number, arrow) in timeline.arrows.iter().enumerate() {
            for (phase, event) in [("s", arrow.from), ("f", arrow.to)] {
                let Some(thread) = self.places.get(&starts[event]) else { continue };
                self.out.push(json!({
                    "ph": phase, "bp": "e", "name": "cause", "cat": "cause", "id": first_flow + number as u64,
                    "pid": self.process, "tid": thread, "ts": starts[event] + LENGTH / 2,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Arrow, ArrowKind, Lane};
    use super::*;

    fn event(at: u64, lane: usize, kind: EventKind, replied: Option<u64>) -> TimelineEvent {
        let request = TimelineEvent::plain(at, lane, kind, "PATCH", "pods/a".to_owned());
        TimelineEvent { replied, ..request }
    }

    fn sample() -> Timeline {
        let lanes = ["user", "podgc"].map(|name| Lane { name: name.to_owned(), kind: "controller" });
        let events = vec![
            event(5000, 0, EventKind::Write, None),
            event(5000, 1, EventKind::Delivery, None),
            event(5000, 1, EventKind::Write, Some(9000)),
            event(5000, 1, EventKind::Write, None),
            event(7000, 1, EventKind::Write, None),
        ];
        let arrows = vec![
            Arrow { from: 0, to: 1, kind: ArrowKind::Delivers },
            Arrow { from: 1, to: 2, kind: ArrowKind::Object },
        ];
        Timeline { id: "podgc/a".to_owned(), lanes: lanes.into(), events, arrows, ..Timeline::default() }
    }

    #[test]
    fn slices_of_a_thread_nest_and_flows_connect() {
        let trace = trace(&sample(), 1, 0);
        let number = |event: &Value, key: &str| event[key].as_u64().expect("a number");
        let slices: Vec<_> = trace.iter().filter(|event| event["ph"] == "X").collect();
        // Three moments, four events within them, and the late reply on its own.
        assert_eq!(slices.len(), 8, "{slices:#?}");
        for a in &slices {
            for b in slices.iter().filter(|b| b["tid"] == a["tid"]) {
                let (from_a, from_b) = (number(a, "ts"), number(b, "ts"));
                let (to_a, to_b) = (from_a + number(a, "dur"), from_b + number(b, "dur"));
                let nest = (from_a <= from_b && to_b <= to_a) || (from_b <= from_a && to_a <= to_b);
                assert!(nest || to_a <= from_b || to_b <= from_a, "{a} and {b} overlap");
            }
        }
        for end in trace.iter().filter(|event| event["name"] == "cause") {
            let is_inside = |slice: &&&Value| {
                let (at, from) = (number(end, "ts"), number(slice, "ts"));
                slice["tid"] == end["tid"] && (from..from + number(slice, "dur")).contains(&at)
            };
            assert!(slices.iter().any(|slice| is_inside(&slice)), "{end} is in no slice");
        }
        let ids: Vec<u64> = trace.iter().filter(|event| event["ph"] == "s").map(|event| number(event, "id")).collect();
        assert_eq!(ids, [0, 1]);
    }
}
