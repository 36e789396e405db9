//! A website of conformance reports: static pages that need no scripts, and badges.
//!
//! ```text
//! site/index.html                          every implementation, Kubernetes version and controller; features
//! site/<project>-<Kubernetes version>.html a report: verdicts, features, failures with transcripts, skips
//! site/badges/<project>/<controller>.json  endpoints for shields.io
//! site/site.json                           the table for programs
//! ```
//!
//! Everything follows from the reports: the same reports make the same bytes. Reports are written by strangers, so
//! every text is escaped by the template library, and each page forbids scripts and foreign content.
//!
//! - [`standing`]: the report that counts for each cell of the table; the window of Kubernetes versions ·
//!   [`badge`]: the state of a controller in a word
//! - `overview`, `detail`: the pages · `layout`: their common parts

pub mod badge;
mod detail;
mod layout;
mod overview;
mod published;
pub mod standing;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::conformance::report::ConformanceReport;
use crate::conformance::report_writer::YAML;
use crate::conformance::slim;
use crate::conformance::verify::{Finding, verify_alone};
use layout::page_name;
pub use published::PublishedReport;
use standing::{Board, BoardRow};

/// The table for programs; also marks a folder as a site.
const TABLE: &str = "site.json";

/// Failures while a site is made.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// No report was found.
    #[error("no report found in {0}: name files, or folders with files `report.yaml`")]
    NoReport(String),
    /// A report is inconsistent.
    #[error("{0}")]
    Refuted(String),
    /// A file cannot be read or written, or a folder is in use for something else.
    #[error("{0}")]
    Io(String),
}

/// Finds the reports at `paths`: files, or folders with files `report.yaml` at any depth, in the order of their paths.
///
/// # Errors
///
/// Returns an error if a folder cannot be read or no report is found.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SiteError> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            below(path, &mut found).map_err(|error| unreadable(path, &error))?;
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(SiteError::NoReport(names.join(", ")));
    }
    Ok(found)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below(&entry.path(), found)?;
        } else if entry.file_name() == YAML {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> SiteError {
    SiteError::Io(format!("unable to read {}: {error}", path.display()))
}

/// Reads a report and the causes of its failures, from a published folder or from the evidence next to it.
///
/// # Errors
///
/// Returns [`SiteError::Refuted`] if the report or what is next to it is inconsistent.
pub fn load(path: &Path) -> Result<PublishedReport, SiteError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let report = ConformanceReport::read(&text)
        .map_err(|error| SiteError::Refuted(format!("{} is not a conformance report: {error}", path.display())))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut findings = verify_alone(&report);
    findings.extend(slim::check(folder, &report).map_err(|error| unreadable(path, &error))?.0);
    if !findings.is_empty() {
        let line = |finding: &Finding| format!("\n  {finding}");
        let lines = findings.iter().map(line).collect::<Vec<_>>().concat();
        return Err(SiteError::Refuted(format!("{} is inconsistent:{lines}", path.display())));
    }
    let causes = slim::causes(folder, &report).map_err(|error| unreadable(path, &error))?;
    Ok(PublishedReport { report, causes })
}

/// A file of the site: path and content.
pub type SiteFile = (String, String);

/// Returns the files of the site, in order of their paths.
#[must_use]
pub fn files(reports: &[PublishedReport]) -> Vec<SiteFile> {
    let board = Board::new(reports);
    let mut files = vec![("index.html".to_owned(), overview::page(&board))];
    for row in board.rows() {
        files.push((page_name(row), detail::page(row, &board)));
    }
    for badge in badge::badges(&board) {
        files.push((badge.path(), pretty(&badge.endpoint())));
    }
    files.push((TABLE.to_owned(), pretty(&table(&board))));
    files.sort();
    files
}

/// Returns true if a cell of the table comes from the report with this digest.
#[must_use]
pub fn counts(digest: &str, reports: &[PublishedReport]) -> bool {
    Board::new(reports).rows().flat_map(BoardRow::sources).any(|source| source.report.digest == digest)
}

fn pretty(value: &Value) -> String {
    // Values of text and numbers always convert to text.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The table for programs.
fn table(board: &Board<'_>) -> Value {
    let row = |row: &BoardRow<'_>| {
        let cell = |cell: &standing::BoardCell<'_>| {
            json!({
                "controller": cell.controller,
                "verdict": cell.verdict,
                "reasons": cell.summary.map(|summary| &summary.reasons),
                "levels": cell.summary.map(|summary| &summary.levels),
                "time": cell.source.map(|source| &source.report.time),
                "report": cell.source.map(|source| &source.report.digest),
            })
        };
        json!({
            "project": row.project,
            "kubernetes": row.minor.to_string(),
            "inWindow": board.window.contains(&row.minor),
            "page": page_name(row),
            "controllers": row.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    };
    json!({
        "apiVersion": crate::conformance::report::API_VERSION,
        "kind": "ConformanceSite",
        "window": board.window.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "rows": board.rows().map(row).collect::<Vec<_>>(),
    })
}

/// Checks that [`write`] may write to `folder`.
///
/// # Errors
///
/// Returns an error if the folder contains something other than a site, or cannot be read.
pub fn check_folder(folder: &Path) -> Result<(), SiteError> {
    if folder.join(TABLE).is_file() {
        return Ok(());
    }
    let is_empty = match fs::read_dir(folder) {
        Ok(mut inside) => inside.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(unreadable(folder, &error)),
    };
    if is_empty {
        return Ok(());
    }
    let folder = folder.display();
    Err(SiteError::Io(format!("{folder} contains files that are not a site: choose another folder")))
}

/// Writes the files below `folder`. A former site there is replaced.
///
/// # Errors
///
/// Returns an error if a file cannot be written, or the folder contains something else.
pub fn write(files: &[SiteFile], folder: &Path) -> Result<(), SiteError> {
    check_folder(folder)?;
    let failed = |error: io::Error| SiteError::Io(format!("unable to write to {}: {error}", folder.display()));
    if folder.join(TABLE).is_file() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        fs::write(path, text).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
