//! Reads the harness' notes in a transcript: crashes, outages, watch and list faults. PURE.

use std::time::Duration;

use plumbline::transcript::by_object::{STARTS, STOPPED};

use super::model::Band;

/// A note of the harness that begins or ends a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HarnessNote<'a> {
    /// The controllers crash.
    Crash,
    /// The controllers have stopped.
    Stop,
    /// The controllers start.
    Start,
    /// The server does not answer.
    Outage,
    /// It answers again.
    OutageEnd,
    /// Watch events of a resource are held back.
    Hold(&'a str),
    /// They are delivered.
    Release(&'a str),
    /// Lists of a resource do not change.
    StaleList(&'a str),
    /// They are current again.
    FreshList(&'a str),
    /// The server's clock is set.
    Skew,
    /// Any other note.
    Other,
}

/// Reads a note.
fn read(text: &str) -> HarnessNote<'_> {
    let between = |begin: &str, end: &str| text.strip_prefix(begin)?.strip_suffix(end);
    if text == STARTS {
        HarnessNote::Start
    } else if text.starts_with("the controllers crash") {
        HarnessNote::Crash
    } else if text == STOPPED {
        HarnessNote::Stop
    } else if text.starts_with("the server is out for ") {
        HarnessNote::Outage
    } else if text == "the server answers again" {
        HarnessNote::OutageEnd
    } else if text.starts_with("the server's clock is ") || text.starts_with("the controllers' clock is ") {
        HarnessNote::Skew
    } else if let Some(resource) = between("watch events of ", " are held") {
        HarnessNote::Hold(resource)
    } else if let Some(resource) = between("watch events of ", " are let go") {
        HarnessNote::Release(resource)
    } else if let Some(resource) = between("watch events of ", " are let go, coalesced") {
        HarnessNote::Release(resource)
    } else if let Some(resource) = between("lists of ", " stay as they are now") {
        HarnessNote::StaleList(resource)
    } else if let Some(resource) = between("lists of ", " are current again") {
        HarnessNote::FreshList(resource)
    } else {
        HarnessNote::Other
    }
}

/// A period whose end is not reached yet.
struct OpenBand {
    key: String,
    from: Duration,
    kind: &'static str,
    text: String,
}

/// Returns the periods that `notes` describe. `stopped`: the controllers do not run at the begin. Periods without an
/// end last until `end`.
pub(super) fn bands<'a>(notes: impl Iterator<Item = (Duration, &'a str)>, stopped: bool, end: Duration) -> Vec<Band> {
    let mut open = Vec::new();
    let mut bands = Vec::new();
    let down = |from, kind, text: &str| OpenBand { key: "run".to_owned(), from, kind, text: text.to_owned() };
    if stopped {
        open.push(down(Duration::ZERO, "stopped", "the controllers do not run yet"));
    }
    for (at, text) in notes {
        let (key, opened) = match read(text) {
            HarnessNote::Crash => ("run".to_owned(), Some("crash")),
            HarnessNote::Stop => ("run".to_owned(), Some("stopped")),
            HarnessNote::Start => ("run".to_owned(), None),
            HarnessNote::Outage => ("outage".to_owned(), Some("outage")),
            HarnessNote::OutageEnd => ("outage".to_owned(), None),
            HarnessNote::Hold(resource) => (format!("hold {resource}"), Some("watch")),
            HarnessNote::Release(resource) => (format!("hold {resource}"), None),
            HarnessNote::StaleList(resource) => (format!("list {resource}"), Some("list")),
            HarnessNote::FreshList(resource) => (format!("list {resource}"), None),
            HarnessNote::Skew => ("clock".to_owned(), Some("clock")),
            HarnessNote::Other => continue,
        };
        let ended = open.iter().position(|band: &OpenBand| band.key == key);
        bands.extend(ended.map(|index| open.remove(index)).map(|band| close(band, at)));
        open.extend(opened.map(|kind| OpenBand { key, from: at, kind, text: text.to_owned() }));
    }
    bands.extend(open.into_iter().map(|band| close(band, end)));
    bands.sort_by_key(|band| (band.from, band.to));
    bands
}

fn close(band: OpenBand, end: Duration) -> Band {
    Band { from: millis(band.from), to: millis(end.max(band.from)), kind: band.kind, text: band.text }
}

/// Returns whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_and_end() {
        let notes = [
            (5, "the controllers start"),
            (10, "watch events of pods are held"),
            (12, "the controllers crash before DELETE pods/a"),
            (13, "watches of everything break"),
            (20, "the controllers start"),
            (30, "watch events of pods are let go, coalesced"),
            (40, "the server is out for 5s"),
        ];
        let notes = notes.map(|(at, text)| (Duration::from_secs(at), text));
        let found = bands(notes.into_iter(), true, Duration::from_secs(50));
        let short: Vec<_> = found.iter().map(|band| (band.kind, band.from, band.to)).collect();
        let expected =
            [("stopped", 0, 5000), ("watch", 10_000, 30_000), ("crash", 12_000, 20_000), ("outage", 40_000, 50_000)];
        assert_eq!(short, expected);
    }
}
