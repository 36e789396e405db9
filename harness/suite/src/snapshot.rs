//! Transcripts as snapshots: `snapshots/<suite>/<name>.snap`, one per fixture file, with a section per row of a matrix.
//!
//! The driver is `snapshots/main.rs`; this module has the parts that do not need insta.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use plumbline::fixture::Fixture;

use crate::report::JudgedRun;

/// The fixtures of one file.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// `podgc/orphaned-quarantine`.
    pub stem: String,
    /// A single fixture, or one per row.
    pub fixtures: Vec<Fixture>,
}

impl Group {
    /// Returns suite and name.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.stem.split_once('/').unwrap_or(("", &self.stem))
    }

    /// Renders the snapshot: transcripts, with a heading per row if there are rows.
    #[must_use]
    pub fn text(&self, judged: &[JudgedRun]) -> String {
        let mut out = String::new();
        for (fixture, judged) in self.fixtures.iter().zip(judged) {
            if let Some(row) = &fixture.row {
                let gap = if out.is_empty() { "" } else { "\n" };
                for part in [gap, "## ", &row.id, "\n"] {
                    out.push_str(part);
                }
            }
            out.push_str(if judged.transcript.is_empty() { "(no writes)\n" } else { &judged.transcript });
        }
        out
    }
}

/// Groups `fixtures` by file, in order.
#[must_use]
pub fn groups(fixtures: Vec<Fixture>) -> Vec<Group> {
    let mut groups: BTreeMap<String, Vec<Fixture>> = BTreeMap::new();
    for fixture in fixtures {
        groups.entry(fixture.stem().to_owned()).or_default().push(fixture);
    }
    groups.into_iter().map(|(stem, fixtures)| Group { stem, fixtures }).collect()
}

/// Returns the snapshots below `folder` that belong to none of `groups`.
///
/// # Errors
///
/// If a folder cannot be read.
pub fn orphans(folder: &Path, groups: &[Group]) -> io::Result<Vec<PathBuf>> {
    let known: BTreeSet<PathBuf> = groups.iter().map(|group| file(folder, &group.stem)).collect();
    let mut orphans = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "snap") && !known.contains(&path) {
                orphans.push(path);
            }
        }
    }
    orphans.sort();
    Ok(orphans)
}

/// Returns the path of the snapshot for the fixture file `stem`.
#[must_use]
pub fn file(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.snap"))
}
