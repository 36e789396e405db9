//! The folder of published reports: `<Kubernetes version>/<project>/report.yaml`, with its evidence.
//!
//! A report of all profiles is not replaced by one of a single profile, and no report by one of a run that did not
//! finish. A few inconclusive fixtures may be published: they are shown as such, and are never passes. What a reader
//! does not need stays behind: transcripts of passed fixtures, objects and logs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest;
use super::profile::ALL;
use super::provenance;
use super::report::{ConformanceOutcome, ConformanceReport};
use super::report_writer::{EVIDENCE, YAML};

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

/// Copies the verified `report` in the folder `from` below the folder `to`, and returns its new folder.
///
/// # Errors
///
/// Returns [`PublishError::Refused`] for a run that did not finish or has many inconclusive fixtures, and for one that
/// shows less than the published report.
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
    let files = manifest::files(from).map_err(|error| PublishError::Refused(error.to_string()))?;
    let evidence = files.into_keys().filter(|path| !manifest::may_be_left_out(path));
    let evidence = evidence.map(|path| format!("{EVIDENCE}/{path}"));
    for name in [YAML, manifest::FILE, provenance::FILE].map(str::to_owned).into_iter().chain(evidence) {
        let (source, target) = (from.join(&name), staged.join(&name));
        let folder = target.parent().unwrap_or(&staged);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        fs::copy(&source, &target).map_err(failed("copy", &source))?;
    }
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
        let (open, before) = (inconclusive(report), inconclusive(&there));
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
    use crate::conformance::report::ConformanceOutcome;
    use crate::conformance::report::tests::{report, result};

    /// Writes a report and evidence to a folder, as `conform` does.
    fn write(report: &ConformanceReport, folder: &Path) {
        for name in ["index.yaml", "podgc/b/failures.txt", "podgc/b/objects.yaml", "_passed/podgc/a.txt"] {
            let path = folder.join(EVIDENCE).join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, name).expect("a file");
        }
        fs::write(folder.join(YAML), report.to_yaml().expect("YAML")).expect("a file");
        fs::write(folder.join(provenance::FILE), "{}").expect("a file");
        let text = manifest::text(&report.digest, &manifest::files(folder).expect("files"));
        fs::write(folder.join(manifest::FILE), text).expect("a file");
    }

    fn of(profile: &str, outcome: ConformanceOutcome) -> ConformanceReport {
        report(profile, vec![result("podgc/a", "core", ConformanceOutcome::Pass), result("podgc/b", "core", outcome)])
    }

    #[test]
    fn what_readers_need_is_copied() {
        let root = tempfile::tempdir().expect("a folder");
        let (from, to) = (root.path().join("conformance"), root.path().join("reports"));
        let failed = of("podgc", ConformanceOutcome::Fail);
        write(&failed, &from);
        let home = publish(&failed, &from, &to).expect("published");
        assert_eq!(home, to.join("v1.36.0/collector"));
        let files = manifest::files(&home).expect("files");
        assert_eq!(files.keys().collect::<Vec<_>>(), ["index.yaml", "podgc/b/failures.txt"]);
        assert_eq!(manifest::check(&home, &failed.digest).expect("readable"), []);
        assert_eq!(publish(&failed, &from, &to).expect("again"), home);
        let left: Vec<_> = fs::read_dir(to.join("v1.36.0"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
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
        let (first, second, to) = (root.path().join("1"), root.path().join("2"), root.path().join("reports"));
        let (full, other) = (of(there, ConformanceOutcome::Pass), of(new, outcome));
        write(&full, &first);
        write(&other, &second);
        publish(&full, &first, &to).expect("published");
        let says = publish(&other, &second, &to).err().map(|error| error.to_string());
        assert_eq!(says.is_some(), refusal.is_some(), "{says:?}");
        assert!(says.unwrap_or_default().contains(refusal.unwrap_or_default()));
        let text = fs::read_to_string(to.join("v1.36.0/collector").join(YAML)).expect("a report");
        let kept = if refusal.is_some() { &full } else { &other };
        assert_eq!(ConformanceReport::read(&text).as_ref(), Ok(kept));
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
