//! `plumbline site`: makes a website of conformance reports. `conform --site` makes it when the run has ended.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{CliError, notify};
use crate::conformance::publish;
use crate::exit::Exit;
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
    make(&load(&args.reports)?, &args.out)?;
    Ok(Exit::Ok)
}

fn load(paths: &[PathBuf]) -> Result<Vec<PublishedReport>, SiteError> {
    site::find(paths)?.iter().map(|path| site::load(path)).collect()
}

/// Writes the site and prints where it is.
fn make(reports: &[PublishedReport], out: &Path) -> Result<(), CliError> {
    let files = site::files(reports);
    site::write(&files, out)?;
    let page = out.join("index.html");
    let count = files.len();
    writeln!(super::stdout(), "{}: {count} files from {} reports", page.display(), reports.len())?;
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
        let digest = new.report.digest.clone();
        let reports: Vec<_> = self.published.into_iter().chain([new]).collect();
        make(&reports, &self.folder)?;
        if !site::counts(&digest, &reports) {
            notify(&format!(
                "plumbline: the site shows the published report of this implementation, because {} is of fewer profiles \
                 or of an unfinished run",
                made.display()
            ));
        }
        Ok(())
    }
}
