//! `plumbline lint`: validates fixtures without running them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plumbline::fixture::{Problems, parse};

use super::error::CliError;
use super::select::FixturesFolder;
use crate::exit::Exit;

/// Flags of `lint`.
#[derive(Debug, clap::Args)]
pub(super) struct LintArgs {
    /// Fixture files to check [default: all fixtures]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Runs the verb.
pub(super) fn main(args: &LintArgs) -> Result<Exit, CliError> {
    let mut count = 0;
    let mut problems = Vec::new();
    if args.paths.is_empty() {
        count = args.folder.load()?.len();
    }
    for path in &args.paths {
        if path.is_dir() {
            count += parse::load(path).map_err(CliError::BadFixtures)?.len();
            continue;
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| CliError::Environment(format!("unable to read {}: {error}", path.display())))?;
        let suite = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let (fixtures, mut found) = parse::read(path, &suite.unwrap_or_default(), &text);
        count += fixtures.len();
        problems.append(&mut found);
    }
    if !problems.is_empty() {
        return Err(CliError::BadFixtures(Problems(problems)));
    }
    let are = if count == 1 { "fixture is" } else { "fixtures are" };
    writeln!(super::streams::stdout(), "{count} {are} well formed")?;
    Ok(Exit::Ok)
}
