//! Ends runs of programs that request without an end: in virtual time no time passes while a program is busy, so that
//! its run would never end by itself.

use std::time::Duration;

use plumbline::expect::line;
use plumbline::time::Clock;
use plumbline::transcript::{Attributed as _, EntryKind, Transcript, TranscriptEntry};

/// Length of the time in which requests are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Number of requests of the subject in a window that no program needs: client-go's default limits are 5 and 20 a
/// second, controller-runtime's 20 after a burst of 30.
const MOST: usize = 3000;

/// Number of requests that the description names.
const NAMED: usize = 3;

/// Resolves with a description when the subject makes more than [`MOST`] requests in a [`WINDOW`]; never if it is not a
/// `program`.
pub(super) async fn watch(program: bool, transcript: Transcript, clock: Clock) -> String {
    if !program {
        return std::future::pending().await;
    }
    let mut begin = clock.elapsed();
    let mut first = transcript.len();
    let mut count = 0;
    let mut looked_at = first;
    loop {
        transcript.changed().await;
        let now = clock.elapsed();
        if now >= begin + WINDOW {
            (begin, first, count) = (now, transcript.len(), 0);
            looked_at = first;
        }
        let text = transcript.with(|entries| {
            count += entries.get(looked_at..).unwrap_or_default().iter().filter(|entry| is_request(entry)).count();
            looked_at = entries.len();
            (count > MOST).then(|| described(entries.get(first..).unwrap_or_default()))
        });
        if let Some(text) = text {
            return text;
        }
    }
}

fn is_request(entry: &TranscriptEntry) -> bool {
    matches!(entry.what, EntryKind::Request(_)) && entry.actor().is_subject()
}

/// Describes the last requests of the subject among `entries`.
fn described(entries: &[TranscriptEntry]) -> String {
    let requests = entries.iter().rev().filter(|entry| is_request(entry)).take(NAMED);
    let lines = requests.filter_map(|entry| match &entry.what {
        EntryKind::Request(exchange) => Some(line(entry, exchange)),
        _ => None,
    });
    let mut lines: Vec<String> = lines.collect();
    lines.reverse();
    format!("more than {MOST} requests within a second; the last: {}", lines.join(", "))
}
