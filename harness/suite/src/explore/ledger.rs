//! The ledger: a file with all findings so far, so that a run tells new ones from known ones, and known ones from
//! resolved ones.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::findings::Finding;

/// The state of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// No earlier run had it.
    New,
    /// An earlier run had it, too.
    Known,
    /// An earlier run had it, and its plan no longer leads to it.
    Resolved,
}

/// A finding in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LedgerEntry {
    /// The finding's fingerprint.
    pub fingerprint: String,
    /// Its state after the last run.
    pub state: FindingState,
    /// The plan that leads to it.
    pub plan: String,
    /// Description of its first breach.
    pub breach: String,
    /// The run that found it first.
    pub first: RunStamp,
    /// The last run that had it.
    pub last: RunStamp,
}

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunStamp {
    /// The commit of the subject; empty if unknown.
    pub commit: String,
    /// The seed.
    pub seed: u64,
    /// The command line.
    pub command: String,
}

/// The content of a ledger file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ledger {
    /// `plumbline/v1`
    pub api_version: String,
    /// In order of the fingerprints.
    pub findings: Vec<LedgerEntry>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { api_version: "plumbline/v1".to_owned(), findings: Vec::new() }
    }
}

impl Ledger {
    /// Reads a ledger; a missing file is an empty one.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file if it cannot be read or is not a ledger.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("unable to read the ledger {}: {error}", path.display())),
        };
        serde_saphyr::from_str(&text).map_err(|error| format!("{} is not a ledger: {error}", path.display()))
    }

    /// Writes the ledger.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_saphyr::to_string(self).map_err(|error| format!("unable to write a ledger: {error}"))?;
        fs::write(path, text).map_err(|error| format!("unable to write {}: {error}", path.display()))
    }

    /// Adds the findings of a run. `still_fails` runs the plan of an entry that the run did not find and returns true
    /// if it still leads to its finding.
    pub fn update(&mut self, findings: &[Finding], run: &RunStamp, still_fails: impl Fn(&LedgerEntry) -> bool) {
        for entry in &mut self.findings {
            let seen = findings.iter().any(|finding| finding.fingerprint == entry.fingerprint);
            if seen || still_fails(entry) {
                entry.state = FindingState::Known;
                entry.last = run.clone();
            } else {
                entry.state = FindingState::Resolved;
            }
        }
        for finding in findings {
            if self.findings.iter().all(|entry| entry.fingerprint != finding.fingerprint) {
                self.findings.push(LedgerEntry {
                    fingerprint: finding.fingerprint.clone(),
                    state: FindingState::New,
                    plan: finding.plan.clone(),
                    breach: finding.breach.clone(),
                    first: run.clone(),
                    last: run.clone(),
                });
            }
        }
        self.findings.sort_by(|one, other| one.fingerprint.cmp(&other.fingerprint));
    }

    /// Returns the state of the finding with this fingerprint.
    #[must_use]
    pub fn state(&self, fingerprint: &str) -> Option<FindingState> {
        self.findings.iter().find(|entry| entry.fingerprint == fingerprint).map(|entry| entry.state)
    }

    /// Adds the entries of `other`, the ledger of another part of the same exploration.
    pub fn merge(&mut self, other: Self) {
        for entry in other.findings {
            match self.findings.iter_mut().find(|known| known.fingerprint == entry.fingerprint) {
                // A finding is resolved only if no part has it.
                Some(known) if known.state == FindingState::Resolved => *known = entry,
                Some(_) => {}
                None => self.findings.push(entry),
            }
        }
        self.findings.sort_by(|one, other| one.fingerprint.cmp(&other.fingerprint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(fingerprint: &str) -> Finding {
        Finding { fingerprint: fingerprint.to_owned(), plan: format!("ttl/x:500@{fingerprint}"), ..Finding::default() }
    }

    #[test]
    fn findings_are_new_then_known_then_resolved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.yaml");
        let mut ledger = Ledger::read(&path).expect("an empty ledger");
        let run = RunStamp { commit: "c1".to_owned(), seed: 7, command: "plumbline explore".to_owned() };
        ledger.update(&[finding("a"), finding("b")], &run, |_| unreachable!("the ledger is empty"));
        assert_eq!(ledger.state("a"), Some(FindingState::New));
        ledger.write(&path).expect("written");
        let mut ledger = Ledger::read(&path).expect("our own file");
        ledger.update(&[finding("b")], &RunStamp::default(), |_| false);
        assert_eq!(ledger.state("a"), Some(FindingState::Resolved));
        assert_eq!(ledger.state("b"), Some(FindingState::Known));
        assert_eq!(ledger.findings[1].first, run);
        ledger.update(&[], &RunStamp::default(), |entry| entry.fingerprint == "b");
        assert_eq!(ledger.state("b"), Some(FindingState::Known), "its plan still fails");
    }

    #[test]
    fn parts_are_merged() {
        let mut one = Ledger::default();
        one.update(&[finding("a")], &RunStamp::default(), |_| false);
        one.update(&[], &RunStamp::default(), |_| false);
        let mut other = Ledger::default();
        other.update(&[finding("b"), finding("a")], &RunStamp::default(), |_| false);
        one.merge(other);
        let states: Vec<_> = one.findings.iter().map(|entry| (entry.fingerprint.as_str(), entry.state)).collect();
        assert_eq!(states, [("a", FindingState::New), ("b", FindingState::New)]);
    }

    #[test]
    fn another_file_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        fs::write(&path, "nodes: 3\n").expect("written");
        let error = Ledger::read(&path).expect_err("not a ledger");
        assert!(error.contains("x.yaml is not a ledger"), "{error}");
    }
}
