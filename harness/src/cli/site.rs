//! `plumbline site`: makes a website of conformance reports.

use std::io::Write as _;
use std::path::PathBuf;

use super::CliError;
use crate::exit::Exit;
use crate::site::{self, SiteError};

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
    let files = site::files(&reports);
    site::write(&files, &args.out)?;
    let (page, count) = (args.out.join("index.html"), files.len());
    writeln!(super::stdout(), "{}: {count} files from {} reports", page.display(), reports.len())?;
    Ok(Exit::Ok)
}
