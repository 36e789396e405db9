//! The folder of published reports: `<Kubernetes version>/<project>/report.yaml`, with its evidence.
//!
//! A report of all profiles is not replaced by one of a single profile, and no report by one of a run that did not
//! finish. What a reader does not need stays behind: transcripts of passed fixtures, objects and logs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest;
use super::profile::ALL;
use super::provenance;
use super::report::ConformanceReport;
use super::report_writer::{EVIDENCE, YAML};

/// The usual folder of published reports, from the top of the repository.
pub const FOLDER: &str = "harness/reports";

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
/// Returns [`PublishError::Refused`] for an unfinished or inconclusive run, and for one that covers less than the
/// published report.
pub fn publish(report: &ConformanceReport, from: &Path, to: &Path) -> Result<PathBuf, PublishError> {
    let home = to.join(&report.kubernetes_version).join(&report.implementation.project);
    if !report.is_complete() {
        return Err(PublishError::Refused(format!(
            "{} is of a run that did not finish, or has inconclusive fixtures: run it again",
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

/// Refuses to replace a published report by one of fewer profiles.
fn may_replace(report: &ConformanceReport, home: &Path) -> Result<(), PublishError> {
    let file = home.join(YAML);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(()) };
    let there = ConformanceReport::read(&text).map_err(|error| {
        PublishError::Refused(format!("{} is not a report: {error}; remove it first", file.display()))
    })?;
    if report.profile == ALL || report.profile == there.profile {
        return Ok(());
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
    #[case::busy(ALL, ALL, ConformanceOutcome::Inconclusive, Some("has inconclusive fixtures"))]
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
}
