//! The provenance of a report: `report.intoto.json` next to it.
//!
//! An [in-toto statement](https://github.com/in-toto/attestation) whose subject is the file `report.yaml` and whose
//! predicate is [SLSA provenance](https://slsa.dev/spec/v1.0/provenance): the program and the suite that made it, with
//! their digests. It follows from the report, except for the time of the end. It is not signed; `cosign attest-blob`
//! signs its predicate.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::manifest;
use super::report::ConformanceReport;
use super::report_writer::YAML;
use super::verify::Finding;
use crate::digest::{self, ReadError};

/// File name, next to the report.
pub const FILE: &str = "report.intoto.json";

/// The repository of this program; also the identity of the builder.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Content that the statement refers to.
#[derive(Clone, Copy, Debug)]
pub struct FileTexts<'a> {
    /// The text of `report.yaml`.
    pub report: &'a str,
    /// The text of the manifest of the evidence.
    pub manifest: &'a str,
}

/// Returns the statement about `report`. `finished` is the end of the run, in UTC.
#[must_use]
pub fn statement(report: &ConformanceReport, files: FileTexts<'_>, finished: &str) -> Value {
    let (subject, suite) = (&report.subject, &report.suite);
    let mut fixtures = json!({
        "name": "fixtures",
        "uri": format!("git+{REPOSITORY}"),
        "annotations": { "digest": suite.digest, "modified": suite.modified },
    });
    if let Some(commit) = &suite.commit {
        fixtures["digest"] = json!({ "gitCommit": commit });
    }
    let program = subject.digest.iter().map(|digest| ("program", digest));
    let named = subject.files.iter().map(|(name, digest)| (name.as_str(), digest));
    let programs = program.chain(named).map(|(name, digest)| json!({ "name": name, "digest": sha256(digest) }));
    let dependencies: Vec<Value> = [fixtures].into_iter().chain(programs).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "name": YAML, "digest": sha256(&digest::bytes(files.report.as_bytes())) }],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/harness/CONFORMANCE.md#provenance"),
                "externalParameters": {
                    "profile": report.profile,
                    "implementation": report.implementation,
                    "subject": { "kind": subject.kind, "what": subject.what, "environment": subject.environment },
                    "cluster": { "name": report.cluster.name, "image": report.cluster.image },
                    "kubernetesVersion": report.kubernetes_version,
                },
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": { "id": REPOSITORY, "version": { "plumbline": suite.version } },
                "metadata": { "startedOn": report.time, "finishedOn": finished },
                "byproducts": [
                    { "name": manifest::FILE, "digest": sha256(&digest::bytes(files.manifest.as_bytes())) },
                    // A descriptor needs a digest, a URI or the content: this is the digest of the canonical content.
                    { "name": "report", "digest": sha256(&report.digest) },
                ],
            },
        },
    })
}

/// The form of digests in statements.
fn sha256(digest: &str) -> Value {
    json!({ "sha256": digest.trim_start_matches("sha256:") })
}

/// Returns the problems of the statement in `folder` about `report`; empty if there is no statement.
///
/// # Errors
///
/// Returns an error if a file cannot be read; the message names it.
pub fn check(folder: &Path, report: &ConformanceReport) -> Result<Vec<Finding>, ReadError> {
    let Some(text) = read(&folder.join(FILE))? else { return Ok(Vec::new()) };
    let finding = |message: &str| vec![Finding { field: FILE.to_owned(), message: message.to_owned() }];
    let Ok(says) = serde_json::from_str::<Value>(&text) else { return Ok(finding("is not JSON")) };
    let files = [YAML, manifest::FILE].map(|name| read(&folder.join(name)));
    let [yaml, manifest] = files;
    let (yaml, manifest) = (yaml?.unwrap_or_default(), manifest?.unwrap_or_default());
    let finished = says.pointer("/predicate/runDetails/metadata/finishedOn").and_then(Value::as_str);
    let should = statement(report, FileTexts { report: &yaml, manifest: &manifest }, finished.unwrap_or_default());
    Ok(match finished {
        Some(_) if says == should => Vec::new(),
        Some(_) if says["subject"] != should["subject"] => {
            finding("is a statement about another file than report.yaml")
        }
        _ => finding("does not follow from the report: it was edited, or belongs to another report"),
    })
}

/// Reads a text file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, ReadError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ReadError { path: path.to_owned(), is_folder: false, source }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::conformance::report::ConformanceOutcome;
    use crate::conformance::report::tests::{report, result};

    #[rstest]
    #[case::untouched("", "", None)]
    #[case::another_report("1111", "2222", Some("is a statement about another file"))]
    #[case::suite("\"gitCommit\": \"5", "\"gitCommit\": \"6", Some("does not follow from the report"))]
    #[case::program("--now", "--later", Some("does not follow from the report"))]
    #[case::no_end("finishedOn", "endedOn", Some("does not follow from the report"))]
    #[case::broken("{", "", Some("is not JSON"))]
    fn statements_follow_from_their_report(#[case] from: &str, #[case] to: &str, #[case] finding: Option<&str>) {
        let root = tempfile::tempdir().expect("a folder");
        let sealed = report("podgc", vec![result("podgc/a", "core", ConformanceOutcome::Pass)]);
        let yaml = format!("{}# 1111\n", sealed.to_yaml().expect("YAML"));
        let files = FileTexts { report: &yaml, manifest: "# report\n" };
        let made = statement(&sealed, files, "2030-01-01T00:01:00Z");
        assert_eq!(made["subject"][0]["digest"]["sha256"].as_str().map(str::len), Some(64));
        let dependencies = &made["predicate"]["buildDefinition"]["resolvedDependencies"];
        let names: Vec<_> = dependencies.as_array().expect("a list").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["fixtures", "program", "collector.py"]);
        let byproducts = &made["predicate"]["runDetails"]["byproducts"];
        for one in
            [&made["subject"], dependencies, byproducts].into_iter().flat_map(|list| list.as_array().expect("a list"))
        {
            let is_known = ["uri", "digest", "content"].iter().any(|field| one.get(field).is_some());
            assert!(is_known, "in-toto's ResourceDescriptor needs one of these fields: {one}");
        }
        assert_eq!(check(root.path(), &sealed).expect("readable"), [], "no statement");

        let text = serde_json::to_string_pretty(&made).expect("JSON");
        assert!(text.contains(from) || yaml.contains(from));
        let put = |name: &str, text: &str| fs::write(root.path().join(name), text).expect("a file");
        put(YAML, &yaml.replacen(from, to, usize::from(from == "1111")));
        put(manifest::FILE, "# report\n");
        put(FILE, &text.replacen(from, to, 1));
        let findings: Vec<String> =
            check(root.path(), &sealed).expect("readable").iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), usize::from(finding.is_some()), "{findings:?}");
        assert!(findings.iter().all(|one| one.contains(finding.unwrap_or_default())), "{findings:?}");
    }
}
