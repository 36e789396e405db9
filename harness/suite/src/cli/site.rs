//! `plumbline site`: makes a website of conformance reports. `conform --site` makes it when the run has ended.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::streams::notify;
use crate::conformance::publish;
use crate::exit::Exit;
use crate::plural::counted;
use crate::site::standing::Minor;
use crate::site::{self, PublishedReport, SiteError};

/// Flags of `site`.
#[derive(Debug, clap::Args)]
pub(super) struct SiteArgs {
    /// Reports, or folders with files `report.yaml`
    #[arg(value_name = "REPORT", required = true)]
    reports: Vec<PathBuf>,

    /// Output folder; a site that is there is replaced
    #[arg(long, value_name = "DIR", default_value = "site")]
    out: PathBuf,
}

impl From<SiteError> for CliError {
    fn from(error: SiteError) -> Self {
        match error {
            SiteError::NoReport(_) => Self::Nothing(error.to_string()),
            SiteError::Refuted(_) => Self::Refuted(error.to_string()),
            SiteError::Io(_) => Self::Environment(error.to_string()),
        }
    }
}

/// Runs the verb.
pub(super) fn main(args: &SiteArgs) -> Result<Exit, CliError> {
    let paths = site::find(&args.reports)?;
    let reports = paths.iter().map(|path| site::load(path)).collect::<Result<Vec<_>, _>>()?;
    for (path, PublishedReport { report, .. }) in paths.iter().zip(&reports) {
        if !site::counts(&report.digest, &reports) {
            let (path, project) = (path.display(), &report.implementation.project);
            notify(&format!(
                "plumbline: {path} does not count: another report of {project} is newer or has more profiles"
            ));
        }
    }
    make(&reports, &args.out)?;
    Ok(Exit::Ok)
}

/// Writes the site and prints where it is.
fn make(reports: &[PublishedReport], out: &Path) -> Result<(), CliError> {
    let files = site::files(reports);
    site::write(&files, out)?;
    let page = out.join("index.html");
    let count = files.len();
    writeln!(
        super::streams::stdout(),
        "{}: {} from {}",
        page.display(),
        counted(count as u64, "file"),
        counted(reports.len() as u64, "report")
    )?;
    Ok(())
}

/// A site that is made when a run has ended.
pub(super) struct SiteAfterRun {
    folder: PathBuf,
    published: Vec<PublishedReport>,
}

impl SiteAfterRun {
    /// Reads the published reports, except one at `made`, and checks the site's folder: problems show before the run.
    pub(super) fn new(folder: &Path, made: &Path) -> Result<Self, CliError> {
        site::check_folder(folder)?;
        let mut paths = match site::find(&[PathBuf::from(publish::FOLDER)]) {
            Ok(paths) => paths,
            Err(SiteError::NoReport(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        paths.retain(|path| path != made && path.is_file());
        let published = paths.iter().map(|path| site::load(path)).collect::<Result<_, _>>()?;
        Ok(Self { folder: folder.to_owned(), published })
    }

    /// Makes the site from the published reports and the one at `made`.
    pub(super) fn make(self, made: &Path) -> Result<(), CliError> {
        let new = site::load(made)?;
        let row = |of: &PublishedReport| {
            (of.report.implementation.project.clone(), Minor::parse(&of.report.kubernetes_version))
        };
        // This run is what the site is made for, also if it is of fewer profiles or was interrupted.
        let mut reports: Vec<_> = self.published.into_iter().filter(|other| row(other) != row(&new)).collect();
        reports.push(new);
        make(&reports, &self.folder)
    }
}
