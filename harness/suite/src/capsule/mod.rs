//! Capsules: one zip file for each failure, with all that is needed to run it again.
//!
//! ```text
//! capsule.json    versions, subject, flags, and the fixture's report (outcome, failures)
//! fixture.yaml    the fixture's file
//! transcript.txt  requests and writes with their times
//! objects.yaml    objects at the end
//! subject.log     log of the subject
//! ```
//!
//! There is no seed: in virtual time a run has no choice to make, so that the fixture and the versions determine it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::report::{Event, FixtureReport, JudgedRun, Outcome, Reporter};

/// Format of `capsule.json`. Within a version, fields may be added but keep their meaning.
pub const API_VERSION: &str = "plumbline-capsule/v1";

const CAPSULE: &str = "capsule.json";
const FIXTURE: &str = "fixture.yaml";
/// Maximum size of a file in a capsule that is read, in bytes: a capsule may come from a stranger.
const MAX_SIZE: u64 = 64 << 20;

/// A run's environment, the same for all of its capsules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapsuleOrigin {
    /// Version of plumbline.
    pub plumbline: String,
    /// Version of the API server: `v1.36.1`.
    pub kubernetes: String,
    /// Name of the cluster: `embedded`.
    pub cluster: String,
    /// Name of the subject.
    pub subject: String,
    /// Name and version of the subject, or its command line.
    pub identity: String,
    /// `sha256:…` of the subject's program, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The flags about cluster and subject, quoted as for a shell.
    pub flags: String,
    /// True if the run was in virtual time, which repeats exactly.
    pub is_virtual: bool,
}

/// The content of `capsule.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capsule {
    /// [`API_VERSION`].
    pub api_version: String,
    /// The environment.
    pub origin: CapsuleOrigin,
    /// The fixture's report, with failures and transcript.
    pub report: FixtureReport,
}

/// Failures while a capsule is read.
#[derive(Debug, thiserror::Error)]
pub enum CapsuleError {
    /// The file cannot be read.
    #[error("unable to read it: {0}")]
    Io(#[from] io::Error),
    /// No zip file, or an incomplete one.
    #[error("it is not a capsule: {0}")]
    Zip(#[from] zip::result::ZipError),
    /// A file in it is too large.
    #[error("it is not a capsule: {0} is larger than {MAX_SIZE} bytes")]
    Large(&'static str),
    /// `capsule.json` cannot be read.
    #[error("{CAPSULE}: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error("{CAPSULE} has apiVersion `{0}`, expected `{API_VERSION}`")]
    Version(String),
}

/// Reads a capsule and the text of its fixture.
///
/// # Errors
///
/// Returns an error if the file is no capsule, or one of another version.
pub fn read(path: &Path) -> Result<(Capsule, String), CapsuleError> {
    let mut archive = ZipArchive::new(File::open(path)?)?;
    let mut text = |name: &'static str| -> Result<String, CapsuleError> {
        let mut text = String::new();
        archive.by_name(name)?.take(MAX_SIZE + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_SIZE { Err(CapsuleError::Large(name)) } else { Ok(text) }
    };
    let document: serde_json::Value = serde_json::from_str(&text(CAPSULE)?)?;
    let version = document["apiVersion"].as_str().unwrap_or_default();
    if version != API_VERSION {
        return Err(CapsuleError::Version(version.to_owned()));
    }
    Ok((serde_json::from_value(document)?, text(FIXTURE)?))
}

/// Writes a capsule for each fixture that fails.
#[derive(Debug)]
pub struct CapsuleWriter {
    folder: PathBuf,
    origin: CapsuleOrigin,
    names: BTreeSet<String>,
}

impl CapsuleWriter {
    /// Creates the folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created.
    pub fn create(folder: &Path, origin: CapsuleOrigin) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), origin, names: BTreeSet::new() })
    }

    fn write(&mut self, judged: &JudgedRun) -> io::Result<()> {
        let name = self.name(&judged.report.id);
        let path = self.folder.join(name);
        let mut report = judged.report.clone();
        // Wall times differ from run to run.
        report.wall_micros = 0;
        let capsule = Capsule { api_version: API_VERSION.to_owned(), origin: self.origin.clone(), report };
        let objects: Vec<_> = judged.objects.iter().map(AsRef::as_ref).collect();
        let files = [
            (CAPSULE, serde_json::to_string_pretty(&capsule)?),
            (FIXTURE, fs::read_to_string(&judged.report.file).unwrap_or_default()),
            ("transcript.txt", judged.transcript.clone()),
            ("objects.yaml", serde_saphyr::to_string_multiple(&objects).map_err(io::Error::other)?),
            ("subject.log", judged.report.log.join("\n")),
        ];
        let mut writer = ZipWriter::new(File::create(path)?);
        for (name, text) in files {
            writer.start_file(name, SimpleFileOptions::default())?;
            writer.write_all(text.as_bytes())?;
        }
        writer.finish()?.flush()
    }

    /// Returns a file name for a fixture that no other capsule of the run has.
    fn name(&mut self, id: &str) -> String {
        let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' };
        let stem: String = id.chars().map(safe).collect();
        let stem = stem.trim_end_matches('_');
        let numbered = (2..).map(|number| format!("{stem}_{number}.zip"));
        let mut names = std::iter::once(format!("{stem}.zip")).chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }
}

impl Reporter for CapsuleWriter {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Finished(judged) if judged.report.outcome == Outcome::Fail => self.write(judged),
            Event::Started { .. } | Event::Finished(_) | Event::Ended(_) => Ok(()),
        }
    }
}

/// Returns the differences between two reports of a fixture, one per line; empty if it came out the same.
#[must_use]
pub fn differences(before: &FixtureReport, now: &FixtureReport) -> Vec<String> {
    let mut out = Vec::new();
    if before.outcome != now.outcome {
        out.push(format!("outcome: {} before, {} now", before.outcome.participle(), now.outcome.participle()));
    }
    let lines = |report: &FixtureReport| -> Vec<String> {
        let line = |failure: &crate::report::Failure| failure.to_string().replace('\n', "; ");
        report.failures.iter().map(line).collect()
    };
    let (earlier, later) = (lines(before), lines(now));
    out.extend(earlier.iter().filter(|line| !later.contains(line)).map(|line| format!("failed before only: {line}")));
    out.extend(later.iter().filter(|line| !earlier.contains(line)).map(|line| format!("fails now only: {line}")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::canned;

    #[test]
    fn names_are_safe_and_unique() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = CapsuleWriter::create(folder.path(), CapsuleOrigin::default()).expect("a folder");
        let names = ["podgc/a[row-1]", "podgc/a_row-1", "../../x"].map(|id| writer.name(id));
        assert_eq!(names, ["podgc_a_row-1.zip", "podgc_a_row-1_2.zip", ".._.._x.zip"]);
    }

    #[test]
    fn reports_differ_in_outcome_and_failures() {
        let failed = canned().fixtures[0].clone();
        assert_eq!(differences(&failed, &failed), Vec::<String>::new());
        let passed = FixtureReport { outcome: Outcome::Pass, failures: Vec::new(), ..failed.clone() };
        let found = differences(&failed, &passed);
        assert_eq!(found[0], "outcome: failed before, passed now");
        assert!(found[1].starts_with("failed before only: pods/a must exist until t=+59s; expected: "), "{found:?}");
    }
}
