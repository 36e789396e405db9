//! A run as one HTML file: an overview, and a timeline of each fixture.
//!
//! The file is complete: it opens from disk, loads nothing, and its policy permits only its own script and style. Names
//! and messages come from fixtures and from subjects, so all of them are escaped.
//!
//! ```text
//! JudgedRun ─► timeline (watches, causes, notes, steps) ─► blocks ─┐
//! RunReport ─► overview, history ──────────────────────────────────┴► page
//! ```
//!
//! - [`model`]: the data of a timeline · [`timeline`]: from the record to a timeline
//! - `watches`, `causes`, `notes`, `steps`, `patch`: deliveries, arrows, periods of faults, checks, versions of objects
//! - `blocks`: compression and the limit on the page's size · [`history`]: New, Fixed, Still failing
//! - `comparison`, `accepted`: two subjects side by side; a failed run and its accepted snapshot
//! - [`perfetto`]: the timelines as a trace
//! - `overview`, `page`: the markup; the script and the style are plain files next to this one

mod accepted;
mod blocks;
mod causes;
mod comparison;
pub mod history;
pub mod model;
mod notes;
mod overview;
mod page;
mod patch;
pub mod perfetto;
mod steps;
mod timeline;
mod watches;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use blocks::{TimelineArchive, TimelineText};
pub use comparison::{TimelineTexts, comparison_page};
use maud::Markup;
use page::PageParts;
pub use timeline::timeline;

use crate::conformance::compare::DiffRow;
use crate::fixture::Fixture;
use crate::report::{Event, JudgedRun, Outcome, Reporter, RunReport};

/// Writes the page when the run has ended.
pub struct Html<W> {
    out: W,
    title: String,
    fixtures: BTreeMap<String, Fixture>,
    before: Option<RunReport>,
    timelines: Vec<TimelineText>,
}

impl<W: Write> Html<W> {
    /// Creates a reporter for a run of `fixtures`.
    pub fn new(out: W, title: &str, fixtures: &[Fixture]) -> Self {
        let fixtures = fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.clone())).collect();
        Self { out, title: title.to_owned(), fixtures, before: None, timelines: Vec::new() }
    }

    /// Adds a former run to compare with.
    #[must_use]
    pub fn since(mut self, before: Option<RunReport>) -> Self {
        self.before = before;
        self
    }

    fn keep(&mut self, judged: &JudgedRun) -> io::Result<()> {
        let report = &judged.report;
        if judged.entries.is_empty() && !report.outcome.has_run() {
            return Ok(());
        }
        let fixture = self.fixtures.get(&report.id);
        let mut timeline = timeline(fixture, judged);
        if report.outcome == Outcome::Fail {
            timeline.accepted = fixture.map(|fixture| difference_from_snapshot(fixture, judged)).unwrap_or_default();
        }
        self.timelines.push(TimelineText {
            id: report.id.clone(),
            file: report.file.clone(),
            is_important: report.outcome != Outcome::Pass,
            json: serde_json::to_string(&timeline)?,
        });
        Ok(())
    }

    fn write(&mut self, report: &RunReport) -> io::Result<()> {
        let history = self.before.as_ref().map(|before| history::compare(before, report));
        let timelines = std::mem::take(&mut self.timelines);
        let ran = timelines.len();
        let packed = blocks::pack(timelines, blocks::ALL_BLOCKS, |file| source(Path::new(file)));
        let overview = overview::overview(report, history.as_ref());
        let page = page::page(&PageParts { title: &self.title, overview, packed: &packed, ran });
        self.out.write_all(page.as_bytes())?;
        self.out.flush()
    }
}

/// Returns a page without timelines.
#[must_use]
pub fn plain_page(title: &str, content: Markup) -> String {
    page::page(&PageParts { title, overview: content, packed: &TimelineArchive::default(), ran: 0 })
}

/// Returns the accepted snapshot and the transcript side by side; empty if they are equal or there is no snapshot.
fn difference_from_snapshot(fixture: &Fixture, judged: &JudgedRun) -> Vec<DiffRow> {
    let snapshot = accepted::path(fixture).and_then(|path| std::fs::read_to_string(path).ok());
    let row = fixture.row.as_ref().map(|row| row.id.as_str());
    snapshot.map(|snapshot| accepted::rows(&snapshot, row, &judged.transcript)).unwrap_or_default()
}

/// Returns the text of a fixture's file for the page; empty if it cannot be read.
#[must_use]
pub fn source(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

impl<W: Write> Reporter for Html<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => Ok(()),
            Event::Finished(judged) => self.keep(judged),
            Event::Ended(report) => self.write(report),
        }
    }
}

#[cfg(test)]
mod tests;
