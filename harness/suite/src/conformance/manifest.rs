//! The manifest that ties evidence to its report: `evidence.sha256` next to the evidence, in the format of `sha256sum`.
//!
//! ```text
//! # report sha256:…                      the digest of the report
//! 9f86…  evidence/index.yaml             every file below evidence/, in order of paths
//! # seal sha256:…                        over the lines above
//! ```
//!
//! Evidence of reports that were published before 0.2.0 lacks some files, see [`may_be_left_out`]; no file may be added
//! or changed.
//!
//! It is a separate file because evidence contains times and process ids, while two runs with equal outcomes must write
//! equal reports. Like the report's digest, the seal is not a signature: it detects exchanged files, not who ran the
//! suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::archive::{EVIDENCE, EvidenceError, EvidenceSource, LINK, MANIFEST as FILE};
use super::verify::Finding;
use crate::digest;

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

/// Returns true if evidence need not have this file, as that of reports published before 0.2.0: logs, objects, and
/// transcripts of fixtures that passed.
fn may_be_left_out(path: &str) -> bool {
    path.starts_with("_passed/") || path.ends_with("/objects.yaml") || path.ends_with("/subject.log")
}

/// Returns the problems of evidence for the report with the digest `report`.
///
/// # Errors
///
/// Returns an error if a file cannot be read; the message names it.
pub fn check(evidence: &mut EvidenceSource, report: &str) -> Result<Vec<Finding>, EvidenceError> {
    let finding = |field: &str, message: String| Finding { field: field.to_owned(), message };
    let Some(says) = evidence.text(FILE)? else {
        return Ok(vec![finding(FILE, "is missing, although there is evidence".to_owned())]);
    };
    let there = evidence.digests()?;
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
    use std::fs;
    use std::path::Path;

    use rstest::rstest;

    use super::*;

    const REPORT: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn open(folder: &Path) -> EvidenceSource {
        EvidenceSource::open(folder).expect("a folder")
    }

    fn digests(folder: &Path) -> BTreeMap<String, String> {
        open(folder).digests().expect("readable")
    }

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
        |root: &Path| fs::write(root.join(FILE), text("sha256:other", &digests(root))).expect("a file"),
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
    fn exchanged_evidence_is_noticed(#[case] change: fn(&Path), #[case] finding: Option<&str>) {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("evidence/podgc")).expect("a folder");
        fs::create_dir_all(root.path().join("evidence/_passed/podgc")).expect("a folder");
        for (name, content) in [("index.yaml", "[]"), ("podgc/b.txt", "it failed"), ("_passed/podgc/a.txt", "passed")] {
            fs::write(root.path().join(EVIDENCE).join(name), content).expect("a file");
        }
        let made = text(REPORT, &digests(root.path()));
        fs::write(root.path().join(FILE), made).expect("a file");
        change(root.path());
        let described = check(&mut open(root.path()), REPORT).expect("readable");
        assert_eq!(described.len(), usize::from(finding.is_some()), "{described:?}");
        assert!(described.iter().all(|one| one.to_string().starts_with(finding.unwrap_or_default())), "{described:?}");
    }
}
