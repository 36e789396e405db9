//! The folder of a published report: what readers need, without the evidence, which is an archive next to the folder.
//!
//! ```text
//! <project>/report.yaml      the report; its field `evidence` has the digests of the other files and of the evidence
//! <project>/SUMMARY.md       the report in words
//! <project>/causes.yaml      the causes of failures, each with its fixtures
//! <project>/transcripts/     a transcript for each of the most frequent causes
//! <project>.evidence.zip     all evidence; a release carries it, the repository does not
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::archive::{EVIDENCE, EvidenceError, EvidenceSource, MANIFEST, PublishedEvidence, SUFFIX};
use super::causes::{self, FailureCause};
use super::report::ConformanceReport;
use super::verify::Finding;
use super::{evidence, manifest, summary};
use crate::digest;

/// The report in words.
pub const SUMMARY: &str = "SUMMARY.md";
/// The causes of failures.
pub const CAUSES: &str = "causes.yaml";
/// The folder of transcripts.
const TRANSCRIPTS: &str = "transcripts";
/// The report itself, whose digests are those of the other files.
const REPORT: &str = "report.yaml";

/// Most transcripts of a published report.
pub const MAX_TRANSCRIPTS: usize = 20;

/// The part of a report's evidence that is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceAtHand {
    /// None.
    Nothing,
    /// All of it, next to the report or in this archive.
    Everything(PathBuf),
    /// The files of a published folder; all of it would be in this archive.
    Published(PathBuf),
}

/// Returns the path of the archive with the evidence of a published report in `folder`.
#[must_use]
pub fn archive_of(folder: &Path, report: &ConformanceReport) -> PathBuf {
    let name = format!("{}{SUFFIX}", report.implementation.project);
    match folder.file_name() {
        Some(_) => folder.with_file_name(name),
        None => folder.join("..").join(name),
    }
}

/// Returns the files of a published folder, `report.yaml` among them, with their texts. `manifest` is the text of the
/// evidence's manifest.
///
/// # Errors
///
/// Returns the serializer's error, which no report that was read or made here causes.
pub fn files(
    report: &ConformanceReport,
    mut causes: Vec<FailureCause>,
    manifest: &str,
) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let is_shown = |cause: &&mut FailureCause| cause.transcript.as_ref().is_some_and(|text| !text.trim().is_empty());
    for (cause, number) in causes.iter_mut().filter(is_shown).take(MAX_TRANSCRIPTS).zip(1..) {
        let id = cause.fixtures.first().map(|id| id.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
        let name = format!("{TRANSCRIPTS}/{number:02}-{}.txt", id.unwrap_or_default().trim_end_matches('-'));
        files.insert(name.clone(), cause.transcript.clone().unwrap_or_default());
        cause.file = Some(name);
    }
    files.insert(CAUSES.to_owned(), serde_saphyr::to_string(&causes).map_err(io::Error::other)?);
    files.insert(SUMMARY.to_owned(), summary::text(report, &causes));
    let digests = files.iter().map(|(name, text)| (name.clone(), digest::bytes(text.as_bytes()))).collect();
    let evidence = PublishedEvidence { archive: digest::bytes(manifest.as_bytes()), files: digests };
    let published = ConformanceReport { evidence: Some(evidence), ..report.clone() };
    files.insert(REPORT.to_owned(), published.to_yaml()?);
    Ok(files)
}

/// Returns the causes of the failures of a report in `folder`, from a published folder or from evidence next to it.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub fn causes(folder: &Path, report: &ConformanceReport) -> io::Result<Vec<FailureCause>> {
    if report.evidence.is_none() {
        let evidence = if folder.join(EVIDENCE).is_dir() {
            evidence::read(&mut EvidenceSource::open(folder).map_err(io::Error::other)?)?
        } else {
            Vec::new()
        };
        return Ok(causes::of(report, &evidence));
    }
    let text = fs::read_to_string(folder.join(CAUSES))?;
    let mut causes: Vec<FailureCause> = serde_saphyr::from_str(&text).map_err(evidence::unreadable_yaml)?;
    for cause in &mut causes {
        if let Some(file) = cause.file.as_ref().filter(|file| is_inside(file)) {
            cause.transcript = Some(fs::read_to_string(folder.join(file))?);
        }
    }
    Ok(causes)
}

/// Returns the problems of what is next to a report in `folder`, and how much of its evidence that is.
///
/// # Errors
///
/// Returns an error if a file cannot be read; the message names it.
pub fn check(folder: &Path, report: &ConformanceReport) -> Result<(Vec<Finding>, EvidenceAtHand), EvidenceError> {
    let Some(published) = &report.evidence else {
        if !folder.join(EVIDENCE).is_dir() {
            return Ok((Vec::new(), EvidenceAtHand::Nothing));
        }
        let findings = manifest::check(&mut EvidenceSource::open(folder)?, &report.digest)?;
        return Ok((findings, EvidenceAtHand::Everything(folder.join(EVIDENCE))));
    };
    let mut findings = check_files(folder, published);
    let archive = archive_of(folder, report);
    if !archive.is_file() {
        return Ok((findings, EvidenceAtHand::Published(archive)));
    }
    let mut source = EvidenceSource::open(&archive)?;
    findings.extend(manifest::check(&mut source, &report.digest)?);
    let says = source.text(MANIFEST)?.unwrap_or_default();
    if digest::bytes(says.as_bytes()) != published.archive {
        findings.push(finding(&archive.display().to_string(), "is not the evidence that the report names"));
    } else if findings.is_empty() {
        findings.extend(check_causes(folder, report, &mut source));
    }
    Ok((findings, EvidenceAtHand::Everything(archive)))
}

/// Compares the transcripts of a published folder with its archive.
fn check_causes(folder: &Path, report: &ConformanceReport, archive: &mut EvidenceSource) -> Vec<Finding> {
    let read = |error: io::Error| vec![finding(CAUSES, &format!("cannot be read: {error}"))];
    let (published, evidence) = match (causes(folder, report), evidence::read(archive)) {
        (Ok(published), Ok(evidence)) => (published, evidence),
        (Err(error), _) | (_, Err(error)) => return read(error),
    };
    let is_in_archive = |cause: &FailureCause| {
        let first = cause.fixtures.first();
        let one = evidence.iter().find(|one| Some(&one.fixture) == first);
        cause.file.is_none() || one.map(|one| &one.transcript) == cause.transcript.as_ref()
    };
    let others = published.iter().filter(|cause| !is_in_archive(cause));
    others.map(|cause| finding(cause.file.as_deref().unwrap_or(CAUSES), "is not a transcript of the archive")).collect()
}

/// Compares the files of a published folder with their digests in the report.
fn check_files(folder: &Path, published: &PublishedEvidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, digest) in &published.files {
        let path = folder.join(name);
        let message = if !is_inside(name) {
            "is not below the report's folder"
        } else if path.is_symlink() {
            "is a symbolic link"
        } else {
            match digest::file(&path) {
                Ok(found) if found == *digest => continue,
                Ok(_) => "does not match its digest in the report: it was changed or replaced",
                Err(_) => "is missing, but listed in the report",
            }
        };
        findings.push(finding(name, message));
    }
    let listed = |name: &String| name == REPORT || published.files.contains_key(name);
    let others = files_below(folder, "").into_iter().filter(|name| !listed(name));
    findings.extend(others.map(|name| finding(&name, "is not listed in the report")));
    findings
}

fn finding(field: &str, message: &str) -> Finding {
    Finding { field: field.to_owned(), message: message.to_owned() }
}

/// Returns true if the path leads to a file below the folder that it is relative to.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the paths of the files below `folder`, as far as it can be read, sorted.
fn files_below(root: &Path, folder: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder)).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.extend(files_below(root, &name));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}
