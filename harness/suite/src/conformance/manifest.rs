//! The manifest that ties evidence to its report: `evidence.sha256` next to the report, in the format of `sha256sum`.
//!
//! ```text
//! # report sha256:…                      the digest of the report
//! 9f86…  evidence/index.yaml             every file below evidence/, in order of paths
//! # seal sha256:…                        over the lines above
//! ```
//!
//! Published reports may leave out some files, see [`may_be_left_out`]; no file may be added or changed.
//!
//! It is a separate file because evidence contains times and process ids, while two runs with equal outcomes must write
//! equal reports. Like the report's digest, the seal is not a signature: it detects exchanged files, not who ran the
//! suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::report_writer::EVIDENCE;
use super::verify::Finding;
use crate::digest::{self, ReadError};

/// File name, next to the report.
pub const FILE: &str = "evidence.sha256";

/// Replaces the digest of a symbolic link, which could lead to any file of the reader.
const LINK: &str = "a symbolic link";

/// Returns the manifest for `files`: paths below the evidence folder, with digests.
#[must_use]
pub fn text(report: &str, files: &BTreeMap<String, String>) -> String {
    let mut out = format!("# report {report}\n");
    for (path, digest) in files {
        let _ = writeln!(out, "{}  {EVIDENCE}/{path}", digest.trim_start_matches("sha256:"));
    }
    let seal = digest::bytes(out.as_bytes());
    let _ = writeln!(out, "# seal {seal}");
    out
}

/// Returns the digests of all evidence files below `folder`, the folder of the report.
///
/// # Errors
///
/// Returns an error if a file cannot be read; the message names it.
pub fn files(folder: &Path) -> Result<BTreeMap<String, String>, ReadError> {
    let mut files = BTreeMap::new();
    below(&folder.join(EVIDENCE), "", &mut files)?;
    Ok(files)
}

/// Returns true if a published report need not have this evidence file: logs, objects, and transcripts of fixtures that
/// passed.
#[must_use]
pub fn may_be_left_out(path: &str) -> bool {
    path.starts_with("_passed/") || path.ends_with("/objects.yaml") || path.ends_with("/subject.log")
}

fn below(root: &Path, path: &str, files: &mut BTreeMap<String, String>) -> Result<(), ReadError> {
    let folder = root.join(path);
    let unreadable = |source| ReadError { path: folder.clone(), is_folder: true, source };
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let inner = if path.is_empty() { name } else { format!("{path}/{name}") };
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            below(root, &inner, files)?;
        } else if kind.is_symlink() {
            files.insert(inner, LINK.to_owned());
        } else {
            files.insert(inner, digest::file(&entry.path())?);
        }
    }
    Ok(())
}

/// Returns the problems of the evidence in `folder` for the report with the digest `report`; empty if there is no
/// evidence.
///
/// # Errors
///
/// Returns an error if a file cannot be read; the message names it.
pub fn check(folder: &Path, report: &str) -> Result<Vec<Finding>, ReadError> {
    if !folder.join(EVIDENCE).is_dir() {
        return Ok(Vec::new());
    }
    let finding = |field: &str, message: String| Finding { field: field.to_owned(), message };
    let Ok(says) = fs::read_to_string(folder.join(FILE)) else {
        return Ok(vec![finding(FILE, format!("is missing, although {EVIDENCE}/ is next to the report"))]);
    };
    let there = files(folder)?;
    let mut listed = BTreeMap::new();
    for (digest, path) in says.lines().filter_map(|line| line.split_once("  ")) {
        let path = path.strip_prefix(&format!("{EVIDENCE}/")).unwrap_or(path);
        listed.insert(path.to_owned(), format!("sha256:{digest}"));
    }
    let mut findings = Vec::new();
    for path in listed.keys().chain(there.keys().filter(|path| !listed.contains_key(*path))) {
        let message = match (listed.get(path), there.get(path)) {
            (_, Some(link)) if link == LINK => "is a symbolic link".to_owned(),
            (Some(one), Some(other)) if one == other => continue,
            (Some(_), Some(_)) => format!("does not match its digest in {FILE}: it was changed or replaced"),
            (Some(_), None) if may_be_left_out(path) => continue,
            (Some(_), None) => format!("is missing, but listed in {FILE}"),
            (None, _) => format!("is not listed in {FILE}"),
        };
        findings.push(finding(&format!("{EVIDENCE}/{path}"), message));
    }
    if !says.starts_with(&format!("# report {report}\n")) {
        findings.push(finding(FILE, format!("belongs to another report, not to {report}")));
    } else if findings.is_empty() && says != text(report, &listed) {
        findings.push(finding(FILE, "does not match its seal: it was edited".to_owned()));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const REPORT: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[rstest]
    #[case::untouched(|_: &Path| {}, None)]
    #[case::exchanged(
        |root: &Path| fs::write(root.join("evidence/podgc/b.txt"), "better").expect("a file"),
        Some("evidence/podgc/b.txt: does not match its digest in evidence.sha256")
    )]
    #[case::left_out(|root: &Path| fs::remove_dir_all(root.join("evidence/_passed")).expect("a folder"), None)]
    #[case::linked(
        |root: &Path| {
            fs::remove_file(root.join("evidence/podgc/b.txt")).expect("a file");
            std::os::unix::fs::symlink("/etc/passwd", root.join("evidence/podgc/b.txt")).expect("a link");
        },
        Some("evidence/podgc/b.txt: is a symbolic link")
    )]
    #[case::gone(
        |root: &Path| fs::remove_file(root.join("evidence/index.yaml")).expect("a file"),
        Some("evidence/index.yaml: is missing, but listed")
    )]
    #[case::added(|root: &Path| fs::write(root.join("evidence/more"), "").expect("a file"), Some("evidence/more: is not listed"))]
    #[case::another_report(
        |root: &Path| fs::write(root.join(FILE), text("sha256:other", &files(root).expect("files"))).expect("a file"),
        Some("evidence.sha256: belongs to another report")
    )]
    #[case::edited(
        |root: &Path| {
            let text = fs::read_to_string(root.join(FILE)).expect("a file");
            fs::write(root.join(FILE), text + "\n").expect("a file");
        },
        Some("evidence.sha256: does not match its seal")
    )]
    #[case::no_manifest(|root: &Path| fs::remove_file(root.join(FILE)).expect("a file"), Some("evidence.sha256: is missing"))]
    #[case::nothing_at_hand(
        |root: &Path| fs::remove_dir_all(root.join(EVIDENCE)).expect("a folder"),
        None
    )]
    fn exchanged_evidence_is_noticed(#[case] change: fn(&Path), #[case] finding: Option<&str>) {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("evidence/podgc")).expect("a folder");
        fs::create_dir_all(root.path().join("evidence/_passed/podgc")).expect("a folder");
        for (name, content) in [("index.yaml", "[]"), ("podgc/b.txt", "it failed"), ("_passed/podgc/a.txt", "passed")] {
            fs::write(root.path().join(EVIDENCE).join(name), content).expect("a file");
        }
        let made = text(REPORT, &files(root.path()).expect("files"));
        fs::write(root.path().join(FILE), made).expect("a file");
        change(root.path());
        let described = check(root.path(), REPORT).expect("readable");
        assert_eq!(described.len(), usize::from(finding.is_some()), "{described:?}");
        assert!(described.iter().all(|one| one.to_string().starts_with(finding.unwrap_or_default())), "{described:?}");
    }
}
