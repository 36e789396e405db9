//! The folder of published reports: `<Kubernetes version>/<project>/report.yaml`, and the archive of its evidence.
//!
//! A report of all profiles is not replaced by one of a single profile, and no report by one of a run that did not
//! finish. A few inconclusive fixtures may be published: they are shown as such, and are never passes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::archive::{EVIDENCE, EvidenceSource, MANIFEST};
use super::profile::ALL;
use super::report::{ConformanceOutcome, ConformanceReport};
use super::report_writer::YAML;
use super::{causes, evidence, slim};

/// The usual folder of published reports, from the top of the repository.
pub const FOLDER: &str = "harness/reports";

/// This part of the fixtures that ran may be inconclusive: one of so many.
const INCONCLUSIVE_PART: usize = 20;

/// Failures to publish a report.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The report must not be published, or not replace the one that is there.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be read or written.
    #[error("unable to {what} {}: {source}", path.display())]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Publishes the verified `report` in the folder `from` below the folder `to`: what readers need as a folder, which it
/// returns, and all evidence as an archive next to it.
///
/// # Errors
///
/// Returns [`PublishError::Refused`] for a run that did not finish or has many inconclusive fixtures, for one that
/// shows less than the published report, and for a report without its evidence.
pub fn publish(report: &ConformanceReport, from: &Path, to: &Path) -> Result<PathBuf, PublishError> {
    let home = to.join(&report.kubernetes_version).join(&report.implementation.project);
    if !report.is_finished() {
        return Err(PublishError::Refused(format!("{} is of a run that did not finish: run it again", from.display())));
    }
    let ran = report.fixtures.iter().filter(|fixture| fixture.outcome.has_run()).count();
    let open = inconclusive(report);
    if open * INCONCLUSIVE_PART > ran {
        return Err(PublishError::Refused(format!(
            "{}: {open} of {ran} fixtures are inconclusive, more than one of {INCONCLUSIVE_PART}: run it again when the \
             machine is less busy, or with -j 1",
            from.display()
        )));
    }
    may_replace(report, &home)?;
    // No project begins with a dot.
    let staged = home.with_file_name(format!(".{}.new", report.implementation.project));
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| PublishError::Io { what, path, source }
    };
    let clear = |folder: &Path| match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(()),
    };
    clear(&staged)?;
    let no_evidence = || {
        PublishError::Refused(format!(
            "{}: the folder {EVIDENCE}/ is not next to the report: publish the report where `conform` wrote it",
            from.display()
        ))
    };
    if !from.join(EVIDENCE).is_dir() {
        return Err(no_evidence());
    }
    let unreadable = |error: &dyn std::fmt::Display| PublishError::Refused(error.to_string());
    let mut source = EvidenceSource::open(from).map_err(|error| unreadable(&error))?;
    let manifest = source.text(MANIFEST).map_err(|error| unreadable(&error))?.ok_or_else(no_evidence)?;
    let details = evidence::read(&mut source).map_err(|error| unreadable(&error))?;
    let files = slim::files(report, causes::of(report, &details), &manifest).map_err(|error| unreadable(&error))?;
    for (name, text) in files {
        let target = staged.join(&name);
        let folder = target.parent().unwrap_or(&staged);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        fs::write(&target, text).map_err(failed("write", &target))?;
    }
    source.pack(&slim::archive_of(&home, report)).map_err(|error| unreadable(&error))?;
    clear(&home)?;
    fs::rename(&staged, &home).map_err(failed("rename", &staged))?;
    Ok(home)
}

fn inconclusive(report: &ConformanceReport) -> usize {
    report.with(ConformanceOutcome::Inconclusive).count()
}

/// Refuses to replace a published report by one of fewer profiles, or by one with more inconclusive fixtures.
fn may_replace(report: &ConformanceReport, home: &Path) -> Result<(), PublishError> {
    let file = home.join(YAML);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(()) };
    let there = ConformanceReport::read(&text).map_err(|error| {
        PublishError::Refused(format!("{} is not a report: {error}; remove it first", file.display()))
    })?;
    if report.profile == ALL || report.profile == there.profile {
        let open = inconclusive(report);
        let before = inconclusive(&there);
        return if open <= before {
            Ok(())
        } else {
            Err(PublishError::Refused(format!(
                "{} has {before} inconclusive fixtures, this report {open}: run it again when the machine is less busy, \
                 or with -j 1",
                file.display()
            )))
        };
    }
    Err(PublishError::Refused(format!(
        "{} is a report of profile {}, this one of profile {} alone: a focused run does not replace it; run --profile {}",
        file.display(),
        there.profile,
        report.profile,
        there.profile
    )))
}

#[cfg(test)]
mod tests {

    use rstest::rstest;

    use super::*;
    use crate::conformance::manifest;
    use crate::conformance::report::ConformanceOutcome;
    use crate::conformance::report::tests::{report, result};
    use crate::conformance::slim::EvidenceAtHand;

    /// The archive of the published report, from its folder.
    const ARCHIVE: &str = "../collector.evidence.zip";

    /// Writes a report and evidence to a folder, as `conform` does.
    fn write(report: &ConformanceReport, folder: &Path) {
        let index = "- fixture: podgc/b\n  file: fixtures/podgc/b.yaml\n  promise: It goes.\n  level: core\n  \
                     outcome: fail\n  failures:\n  - { message: pods/a must go, line: 7, expected: '', observed: '' }\n  \
                     folder: podgc/b\n  files: [failures.txt]\n";
        let files = [
            ("index.yaml", index),
            ("podgc/b/failures.txt", "pods/a must go"),
            ("podgc/b/transcript.txt", "t=+0s GET"),
            ("podgc/b/objects.yaml", "kind: Pod"),
            ("_passed/podgc/a.txt", "t=+0s GET"),
        ];
        for (name, text) in files {
            let path = folder.join(EVIDENCE).join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        fs::write(folder.join(YAML), report.to_yaml().expect("YAML")).expect("a file");
        let digests = EvidenceSource::open(folder).expect("a folder").digests().expect("readable");
        fs::write(folder.join(MANIFEST), manifest::text(&report.digest, &digests)).expect("a file");
    }

    fn of(profile: &str, outcome: ConformanceOutcome) -> ConformanceReport {
        report(profile, vec![result("podgc/a", "core", ConformanceOutcome::Pass), result("podgc/b", "core", outcome)])
    }

    /// Publishes a failed report; returns the folder of the published reports, the report as published, and its folder.
    fn published() -> (tempfile::TempDir, ConformanceReport, PathBuf) {
        let root = tempfile::tempdir().expect("a folder");
        let from = root.path().join("conformance");
        let failed = of("podgc", ConformanceOutcome::Fail);
        write(&failed, &from);
        let home = publish(&failed, &from, &root.path().join("reports")).expect("published");
        let text = fs::read_to_string(home.join(YAML)).expect("a report");
        (root, ConformanceReport::read(&text).expect("our own document"), home)
    }

    #[test]
    fn what_readers_need_is_published_and_the_rest_is_an_archive() {
        let (root, report, home) = published();
        assert_eq!(home, root.path().join("reports/v1.36.0/collector"));
        assert_eq!(report.digest, report.digest(), "the digest is that of the run");
        let evidence = report.evidence.clone().expect("digests");
        let files: Vec<&str> = evidence.files.keys().map(String::as_str).collect();
        assert_eq!(files, ["SUMMARY.md", "causes.yaml", "transcripts/01-podgc-b.txt"]);
        let archive = root.path().join("reports/v1.36.0/collector.evidence.zip");
        assert_eq!(slim::archive_of(&home, &report), archive);
        let at_hand = slim::check(&home, &report).expect("readable");
        assert_eq!(at_hand, (Vec::new(), EvidenceAtHand::Everything(archive.clone())));
        let causes = slim::causes(&home, &report).expect("causes");
        assert_eq!(causes.len(), 1);
        assert_eq!((causes[0].cause.as_str(), causes[0].transcript.as_deref()), ("pods/a must go", Some("t=+0s GET")));

        fs::remove_file(&archive).expect("an archive");
        assert_eq!(slim::check(&home, &report).expect("readable"), (Vec::new(), EvidenceAtHand::Published(archive)));
        assert_eq!(
            publish(
                &of("podgc", ConformanceOutcome::Fail),
                &root.path().join("conformance"),
                &root.path().join("reports")
            )
            .expect("again"),
            home
        );
        let left = fs::read_dir(root.path().join("reports/v1.36.0")).expect("a folder").count();
        assert_eq!(left, 2, "the folder and the archive");
        let refused = publish(&report, &home, &root.path().join("other")).expect_err("no evidence").to_string();
        assert!(refused.contains("is not next to the report"), "{refused}");
    }

    #[rstest]
    #[case::summary("SUMMARY.md", "better", "SUMMARY.md: does not match its digest")]
    #[case::transcript("transcripts/01-podgc-b.txt", "better", "transcripts/01-podgc-b.txt: does not match its digest")]
    #[case::more("more.txt", "", "more.txt: is not listed in the report")]
    #[case::archive(ARCHIVE, "", "is not the evidence that the report names")]
    fn exchanged_files_are_noticed(#[case] file: &str, #[case] text: &str, #[case] finding: &str) {
        let (root, report, home) = published();
        if file == ARCHIVE {
            // Evidence of an equal run, at another time.
            let other = root.path().join("conformance");
            fs::write(other.join(EVIDENCE).join("podgc/b/failures.txt"), "later").expect("a file");
            let mut source = EvidenceSource::open(&other).expect("a folder");
            let digests = source.digests().expect("readable");
            fs::write(other.join(MANIFEST), manifest::text(&report.digest, &digests)).expect("a file");
            source.pack(&home.join(file)).expect("a writable folder");
        } else {
            fs::write(home.join(file), text).expect("a file");
        }
        let (findings, _) = slim::check(&home, &report).expect("readable");
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.len() == 1 && findings[0].contains(finding), "{findings:?}");
    }

    #[rstest]
    #[case::newer(ALL, ALL, ConformanceOutcome::Fail, None)]
    #[case::wider("podgc", ALL, ConformanceOutcome::Pass, None)]
    #[case::focused(ALL, "podgc", ConformanceOutcome::Pass, Some("a focused run does not replace it"))]
    #[case::another_focus("ttl", "podgc", ConformanceOutcome::Pass, Some("is a report of profile ttl"))]
    #[case::unfinished(ALL, ALL, ConformanceOutcome::NotRun, Some("did not finish"))]
    #[case::busy(
        ALL,
        ALL,
        ConformanceOutcome::Inconclusive,
        Some("1 of 2 fixtures are inconclusive, more than one of 20")
    )]
    fn a_full_report_is_kept(
        #[case] there: &str,
        #[case] new: &str,
        #[case] outcome: ConformanceOutcome,
        #[case] refusal: Option<&str>,
    ) {
        let root = tempfile::tempdir().expect("a folder");
        let first = root.path().join("1");
        let second = root.path().join("2");
        let to = root.path().join("reports");
        let full = of(there, ConformanceOutcome::Pass);
        let other = of(new, outcome);
        write(&full, &first);
        write(&other, &second);
        publish(&full, &first, &to).expect("published");
        let says = publish(&other, &second, &to).err().map(|error| error.to_string());
        assert_eq!(says.is_some(), refusal.is_some(), "{says:?}");
        assert!(says.unwrap_or_default().contains(refusal.unwrap_or_default()));
        let text = fs::read_to_string(to.join("v1.36.0/collector").join(YAML)).expect("a report");
        let kept = if refusal.is_some() { &full } else { &other };
        let there = ConformanceReport::read(&text).expect("our own document");
        assert_eq!(ConformanceReport { evidence: None, ..there }, *kept);
    }

    /// A report of 40 fixtures, this number of which are inconclusive.
    fn doubtful(count: usize) -> ConformanceReport {
        let outcome = |index| if index < count { ConformanceOutcome::Inconclusive } else { ConformanceOutcome::Pass };
        report(ALL, (0..40).map(|index| result(&format!("podgc/f{index:02}"), "core", outcome(index))).collect())
    }

    #[rstest]
    #[case::a_few(&[2], None)]
    #[case::many(&[3], Some("3 of 40 fixtures are inconclusive, more than one of 20"))]
    #[case::fewer_than_before(&[2, 1], None)]
    #[case::as_before(&[1, 1], None)]
    #[case::more_than_before(&[0, 1], Some("has 0 inconclusive fixtures, this report 1"))]
    fn a_few_inconclusive_fixtures_are_published(#[case] counts: &[usize], #[case] refusal: Option<&str>) {
        let root = tempfile::tempdir().expect("a folder");
        let mut says = None;
        for (index, count) in counts.iter().enumerate() {
            assert_eq!(says, None, "only the last one may be refused");
            let from = root.path().join(index.to_string());
            let doubtful = doubtful(*count);
            assert_eq!(doubtful.profiles[0].conformant, *count == 0, "an inconclusive fixture is no pass");
            write(&doubtful, &from);
            says = publish(&doubtful, &from, &root.path().join("reports")).err().map(|error| error.to_string());
        }
        assert_eq!(says.is_some(), refusal.is_some(), "{says:?}");
        assert!(says.unwrap_or_default().contains(refusal.unwrap_or_default()));
    }
}
