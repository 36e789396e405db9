//! Evidence of fixtures that failed, were flaky or were interrupted: a folder for each, and an index.
//!
//! ```text
//! evidence/index.yaml                         fixtures, failures, and the folder of each
//! evidence/origin.yaml                        how to run the fixtures again
//! evidence/podgc/orphaned-quarantine-40s/
//!   fixture.yaml                              the fixture's file
//!   failures.txt                              expected and observed values
//!   transcript.txt                            requests and writes with their times, as recorded by the server
//!   objects.yaml                              objects in the cluster at the end, before the cleanup
//!   subject.log                               log of the subject
//!   load.yaml                                 load of the machine, on the wall clock
//! evidence/_passed/podgc/….txt                transcript of a fixture that passed
//! evidence/_server/                           logs of etcd and the API server, if they died during the run
//! ```
//!
//! Written as soon as a fixture has failed, so that a killed run leaves its evidence. The flags of the origin have the
//! seed of what was drawn for a program; apart from that a run in virtual time has no choice to make.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ConformanceError;
use super::archive::{EVIDENCE, EvidenceSource};
use crate::digest;
use crate::report::{Event, Failure, JudgedRun, Outcome, Reporter};

const INDEX: &str = "index.yaml";
const ORIGIN: &str = "origin.yaml";
const FIXTURE: &str = "fixture.yaml";
/// Format of `origin.yaml`. Within a version, fields may be added but keep their meaning.
pub const ORIGIN_VERSION: &str = "plumbline-evidence/v1";
const FAILURES: &str = "failures.txt";
const TRANSCRIPT: &str = "transcript.txt";
/// The folder for logs of servers.
const SERVER: &str = "_server";
/// The folder for transcripts of fixtures that passed.
const PASSED: &str = "_passed";

/// The evidence folder of one run.
#[derive(Debug)]
pub struct EvidenceFolder {
    folder: PathBuf,
    index: BTreeMap<String, IndexEntry>,
    /// Digest of each file, by its path in the folder.
    digests: BTreeMap<String, String>,
}

/// An entry of the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexEntry {
    fixture: String,
    file: String,
    promise: String,
    level: String,
    outcome: String,
    /// Without excerpts: the transcript is next to it.
    failures: Vec<Failure>,
    folder: String,
    files: Vec<String>,
}

/// The evidence of a fixture, as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureEvidence {
    /// The fixture.
    pub fixture: String,
    /// Its file, as the run named it.
    pub file: String,
    /// The content of that file; empty in evidence of before 0.2.0.
    pub text: String,
    /// Its promise.
    pub promise: String,
    /// The report's word for its outcome, such as `fail`, `known-deviation` or `flaky`.
    pub outcome: String,
    /// Its failed checks.
    pub checks: Vec<Failure>,
    /// The content of `failures.txt`.
    pub failures: String,
    /// The content of `transcript.txt`.
    pub transcript: String,
}

/// The origin of a run, with which `replay` makes it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOrigin {
    /// [`ORIGIN_VERSION`].
    pub api_version: String,
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

/// Returns the error of a document that is not the expected YAML: where and why, without the text around it.
pub(super) fn unreadable_yaml(error: serde_saphyr::Error) -> io::Error {
    io::Error::other(error.without_snippet().to_string())
}

/// Reads the evidence of each fixture.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or an entry of the index leads out of the folder.
pub fn read(source: &mut EvidenceSource) -> io::Result<Vec<FixtureEvidence>> {
    let mut text = |name: &str| source.text(&format!("{EVIDENCE}/{name}")).map_err(io::Error::other);
    let Some(index) = text(INDEX)? else { return Ok(Vec::new()) };
    let index: Vec<IndexEntry> = serde_saphyr::from_str(&index).map_err(unreadable_yaml)?;
    let one = |entry: IndexEntry| {
        let inside = Path::new(&entry.folder).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(io::Error::other(format!("the folder `{}` is not below {EVIDENCE}/", entry.folder)));
        }
        let mut file = |name: &str| Ok::<_, io::Error>(text(&format!("{}/{name}", entry.folder))?.unwrap_or_default());
        Ok(FixtureEvidence {
            failures: file(FAILURES)?,
            transcript: file(TRANSCRIPT)?,
            text: file(FIXTURE)?,
            fixture: entry.fixture,
            file: entry.file,
            promise: entry.promise,
            outcome: entry.outcome,
            checks: entry.failures,
        })
    };
    index.into_iter().map(one).collect()
}

/// Reads how the run was made; `None` if the evidence does not say it.
///
/// # Errors
///
/// Returns an error if the file cannot be read or has another version.
pub fn origin(source: &mut EvidenceSource) -> io::Result<Option<RunOrigin>> {
    let text = source.text(&format!("{EVIDENCE}/{ORIGIN}")).map_err(io::Error::other)?;
    let Some(text) = text else { return Ok(None) };
    let origin: RunOrigin = serde_saphyr::from_str(&text).map_err(unreadable_yaml)?;
    if origin.api_version == ORIGIN_VERSION {
        return Ok(Some(origin));
    }
    Err(io::Error::other(format!("{ORIGIN} has apiVersion `{}`, expected `{ORIGIN_VERSION}`", origin.api_version)))
}

/// Writes the evidence of the fixtures that fail to an archive when the run has ended.
#[derive(Debug)]
pub struct EvidenceRecorder {
    evidence: EvidenceFolder,
    folder: tempfile::TempDir,
    archive: PathBuf,
}

impl EvidenceRecorder {
    /// Prepares evidence for the archive at `archive`.
    ///
    /// # Errors
    ///
    /// Returns an error if no temporary folder can be made.
    pub fn create(archive: &Path, origin: &RunOrigin) -> Result<Self, ConformanceError> {
        let failed = |error: &dyn std::fmt::Display| {
            ConformanceError::Unwritable(format!("unable to keep evidence for {}: {error}", archive.display()))
        };
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let mut evidence = EvidenceFolder::create(&folder.path().join(EVIDENCE))?;
        evidence.put_origin(origin).map_err(|error| failed(&error))?;
        Ok(Self { evidence, folder, archive: archive.to_owned() })
    }
}

impl Reporter for EvidenceRecorder {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Finished(judged) if judged.report.outcome == Outcome::Fail => self.evidence.add(judged, "fail"),
            Event::Started { .. } | Event::Finished(_) => Ok(()),
            Event::Ended(_) => {
                let mut source = EvidenceSource::open(self.folder.path()).map_err(io::Error::other)?;
                source.pack(&self.archive).map_err(io::Error::other)
            }
        }
    }
}

impl EvidenceFolder {
    /// Creates an empty folder. The folder of an earlier run, identified by its index, is removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created, or contains files that are not evidence.
    pub fn create(folder: &Path) -> Result<Self, ConformanceError> {
        let failed = |what: &str, error: &io::Error| {
            ConformanceError::Unwritable(format!("unable to {what} {}: {error}", folder.display()))
        };
        if folder.join(INDEX).is_file() {
            fs::remove_dir_all(folder).map_err(|error| failed("remove the old folder", &error))?;
        }
        fs::create_dir_all(folder).map_err(|error| failed("create the folder", &error))?;
        let mut inside = fs::read_dir(folder).map_err(|error| failed("read the folder", &error))?;
        if inside.next().is_some() {
            return Err(ConformanceError::ForeignFolder(format!(
                "{} contains files that are not plumbline evidence: choose another --out",
                folder.display()
            )));
        }
        let mut evidence = Self { folder: folder.to_owned(), index: BTreeMap::new(), digests: BTreeMap::new() };
        evidence.write_index().map_err(|error| failed("write the index of", &error))?;
        Ok(evidence)
    }

    /// Returns the number of fixtures with evidence.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns true if there is no evidence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Stores the evidence of `judged` under the report's word for its outcome.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn add(&mut self, judged: &JudgedRun, outcome: &str) -> io::Result<()> {
        let report = &judged.report;
        let name = self.free_name(&report.id);
        let mut failures = String::new();
        for failure in &report.failures {
            let line = if failure.line == 0 { String::new() } else { format!("{}:{}: ", report.file, failure.line) };
            let _ = writeln!(failures, "{line}{failure}\n");
        }
        for line in report.rule_lines() {
            let _ = writeln!(failures, "rule {line}");
        }
        let objects: Vec<_> = judged.objects.iter().map(AsRef::as_ref).collect();
        let objects = serde_saphyr::to_string_multiple(&objects).map_err(io::Error::other)?;
        let log = report.log.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let mut files = vec![
            (FIXTURE, fs::read_to_string(&report.file).unwrap_or_default()),
            (FAILURES, failures),
            (TRANSCRIPT, judged.transcript.clone()),
            ("objects.yaml", objects),
            ("subject.log", log),
        ];
        if let Some(load) = &report.load {
            files.push(("load.yaml", serde_saphyr::to_string(load).map_err(io::Error::other)?));
        }
        for (file, text) in &files {
            self.put(&format!("{name}/{file}"), text)?;
        }
        let item = IndexEntry {
            fixture: report.id.clone(),
            file: report.file.clone(),
            promise: report.promise.clone(),
            level: report.level.clone(),
            outcome: outcome.to_owned(),
            failures: report.failures.iter().map(without_excerpt).collect(),
            folder: name,
            files: files.iter().map(|(file, _)| (*file).to_owned()).collect(),
        };
        self.index.insert(report.id.clone(), item);
        self.write_index()
    }

    /// Stores the transcript of a fixture that passed.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn add_passed(&mut self, judged: &JudgedRun) -> io::Result<()> {
        let name = format!("{PASSED}/{}.txt", path_of(&judged.report.id));
        // Matrix rows whose ids map to the same path share a file.
        let text = match fs::read_to_string(self.folder.join(&name)) {
            Ok(before) => format!("{before}\n{}\n{}", judged.report.id, judged.transcript),
            Err(_) => format!("{}\n{}", judged.report.id, judged.transcript),
        };
        self.put(&name, &text)
    }

    /// Digest of each file, by its path in the folder.
    #[must_use]
    pub const fn digests(&self) -> &BTreeMap<String, String> {
        &self.digests
    }

    /// Stores how the run is made.
    pub(super) fn put_origin(&mut self, origin: &RunOrigin) -> io::Result<()> {
        self.put(ORIGIN, &serde_saphyr::to_string(origin).map_err(io::Error::other)?)
    }

    fn put(&mut self, name: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        fs::write(path, text)?;
        self.digests.insert(name.to_owned(), digest::bytes(text.as_bytes()));
        Ok(())
    }

    /// Copies logs of servers to the folder [`SERVER`].
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read or written.
    pub fn keep_server_logs(&mut self, logs: &[PathBuf]) -> io::Result<()> {
        for log in logs {
            let name = log.file_name().unwrap_or_default().to_string_lossy();
            self.put(&format!("{SERVER}/{name}"), &String::from_utf8_lossy(&fs::read(log)?))?;
        }
        Ok(())
    }

    fn write_index(&mut self) -> io::Result<()> {
        let items: Vec<_> = self.index.values().collect();
        let text = serde_saphyr::to_string(&items).map_err(io::Error::other)?;
        replace(&self.folder.join(INDEX), &text)?;
        self.digests.insert(INDEX.to_owned(), digest::bytes(text.as_bytes()));
        Ok(())
    }

    /// Returns a path that no other fixture uses.
    fn free_name(&self, id: &str) -> String {
        let name = path_of(id);
        let taken = |name: &str| self.index.values().any(|item| item.folder == name);
        let mut free = name.clone();
        let mut number = 2;
        while taken(&free) {
            free = format!("{name}-{number}");
            number += 1;
        }
        free
    }
}

/// Replaces a file atomically: readers see the old text or the new one, even if the process is killed.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn without_excerpt(failure: &Failure) -> Failure {
    Failure { excerpt: String::new(), ..failure.clone() }
}

/// Converts an id to a path: brackets of matrix rows and characters unsafe in file names become `_`.
fn path_of(id: &str) -> String {
    let usual = |c: char| if c.is_ascii_alphanumeric() || "-_./".contains(c) { c } else { '_' };
    let parts = id.split('/').map(|part| part.chars().map(usual).collect::<String>());
    let parts: Vec<_> = parts.map(|part| if part.starts_with('.') { format!("_{part}") } else { part }).collect();
    parts.join("/").trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::load::FixtureLoad;
    use crate::report::Outcome;
    use crate::runner::verdict;

    fn judged(id: &str) -> JudgedRun {
        let fixture = crate::conformance::report::tests::fixture(id, "core");
        let mut report = verdict::blank(&fixture, Outcome::Fail, "");
        report.failures = vec![Failure {
            message: "pods/a must go".to_owned(),
            line: 7,
            expected: "- a: \"1\"\n- b".to_owned(),
            excerpt: "t=+0s GET\n".to_owned(),
            ..Failure::default()
        }];
        report.log = vec!["W it was me".to_owned()];
        report.load = Some(FixtureLoad { stopped_millis: 250, ..FixtureLoad::default() });
        let objects = ["Pod", "Node"].map(|kind| json!({ "kind": kind }).into()).to_vec();
        JudgedRun {
            report,
            transcript: "t=+0s GET\n".to_owned(),
            clients: std::collections::BTreeSet::new(),
            entries: Vec::new(),
            deliveries: Vec::new(),
            initial: Arc::default(),
            start: jiff::Timestamp::default(),
            leeway: std::time::Duration::ZERO,
            load: crate::load::RunLoad::default(),
            objects,
        }
    }

    #[test]
    fn failures_leave_files_and_an_entry() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("evidence");
        let mut evidence = EvidenceFolder::create(&folder).expect("an empty folder");
        assert!(evidence.is_empty());
        for id in ["podgc/a[x=1]", "podgc/a[x:1]", "podgc/../b"] {
            evidence.add(&judged(id), "fail").expect("a writable folder");
        }
        assert_eq!(evidence.len(), 3);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read("podgc/a_x_1/failures.txt").contains("yaml:7: pods/a must go"));
        assert_eq!(read("podgc/a_x_1-2/transcript.txt"), "t=+0s GET\n");
        assert_eq!(read("podgc/_../b/subject.log"), "W it was me\n");
        assert!(read("podgc/_../b/load.yaml").contains("stoppedMillis: 250"));
        let objects = read("podgc/_../b/objects.yaml");
        assert!(
            objects.contains("kind: Pod") && objects.contains("---") && objects.contains("kind: Node"),
            "{objects}"
        );
        let index: serde_json::Value = serde_saphyr::from_str(&read(INDEX)).expect("YAML");
        assert_eq!(index.as_array().map(Vec::len), Some(3));
        assert_eq!(index[1]["fixture"], "podgc/a[x:1]");
        let failure = json!({ "message": "pods/a must go", "line": 7, "expected": "- a: \"1\"\n- b" });
        assert_eq!(index[1]["failures"], json!([failure]));
    }

    #[test]
    fn evidence_is_read_back_from_its_own_folder_only() {
        let root = tempfile::tempdir().expect("a folder");
        let open = || EvidenceSource::open(root.path()).expect("a folder");
        let mut evidence = EvidenceFolder::create(&root.path().join(EVIDENCE)).expect("an empty folder");
        evidence.add(&judged("podgc/a[x=1]"), "fail").expect("a writable folder");
        let found = read(&mut open()).expect("our own evidence");
        assert_eq!((found[0].fixture.as_str(), found[0].transcript.as_str()), ("podgc/a[x=1]", "t=+0s GET\n"));
        assert!(found[0].failures.contains("pods/a must go"), "{found:?}");
        assert_eq!(found[0].checks, [without_excerpt(&judged("podgc/a").report.failures[0])]);
        let index = root.path().join(EVIDENCE).join(INDEX);
        let text = fs::read_to_string(&index).expect("an index");
        for folder in ["../../etc", "/etc"] {
            fs::write(&index, text.replace("folder: podgc/a_x_1", &format!("folder: {folder}"))).expect("a file");
            let refused = read(&mut open()).expect_err("outside").to_string();
            assert!(refused.contains(folder), "{refused}");
        }
    }

    #[test]
    fn an_old_folder_is_replaced_and_a_foreign_one_is_not() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("evidence");
        let mut old = EvidenceFolder::create(&folder).expect("an empty folder");
        old.add(&judged("podgc/a"), "fail").expect("a writable folder");
        let new = EvidenceFolder::create(&folder).expect("ours");
        assert!(new.is_empty() && !folder.join("podgc").exists());
        fs::remove_file(folder.join(INDEX)).expect("there");
        fs::write(folder.join("thesis.txt"), "dear to me").expect("a writable folder");
        let refused = EvidenceFolder::create(&folder).expect_err("not ours").to_string();
        assert!(refused.contains("--out"), "{refused}");
        assert!(folder.join("thesis.txt").exists());
    }
}
