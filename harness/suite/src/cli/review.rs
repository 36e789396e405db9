//! `plumbline review`: the changes of snapshots between two commits, and those that a run saw, equal ones once.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::colour::ColourArgs;
use super::error::CliError;
use super::output_file;
use crate::exit::Exit;
use crate::git::GitError;
use crate::review::groups;
use crate::review::history::{self, CommitRange};
use crate::review::render::{self, ReviewSection};
use crate::review::run::{self, SeenRun};

/// Flags of `review`.
#[derive(Debug, clap::Args)]
pub(super) struct ReviewArgs {
    /// The commits: `BASE..HEAD`, or `BASE` alone for the current commit. The comparison starts at their merge base
    /// [default: main..HEAD]
    #[arg(value_name = "RANGE")]
    range: Option<String>,

    /// Also show what a run saw differently: files `*.snap.new`. OUTCOME is how the comparison with the snapshots ended
    /// (success, failure, skipped), for a run without such files. Nothing is run
    #[arg(long, value_name = "OUTCOME", num_args = 0..=1, require_equals = true, default_missing_value = "unknown")]
    pending: Option<String>,

    /// Also run all fixtures now, and show what differs from the snapshots and what fails
    #[arg(long, conflicts_with = "pending")]
    run: bool,

    /// The repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    repository: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = ReviewFormat::Human)]
    format: ReviewFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    colour: ColourArgs,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReviewFormat {
    /// Text for a terminal
    Human,
    /// Markdown, such as for the summary of a CI job
    Markdown,
    /// One HTML page
    Html,
}

/// Runs the verb.
pub(super) fn main(args: &ReviewArgs) -> Result<Exit, CliError> {
    let failed = |error: GitError| CliError::environment(error);
    let range = CommitRange::find(&args.repository, args.range.as_deref()).map_err(failed)?;
    let changes = history::changes(&args.repository, &range).map_err(failed)?;
    let mut sections = vec![ReviewSection::of_commits(groups(changes))];
    if let Some(outcome) = &args.pending {
        let changes = history::pending(&args.repository)
            .map_err(|error| CliError::Environment(format!("unable to read {}: {error}", args.repository.display())))?;
        sections.push(ReviewSection::of_pending(groups(changes), outcome));
    }
    if args.run {
        let SeenRun { changes, failures } = run::run(&args.repository).map_err(CliError::environment)?;
        sections.push(ReviewSection::of_run(groups(changes), failures));
    }
    let text = match args.format {
        ReviewFormat::Human => {
            let is_terminal = args.output.is_none() && io::stdout().is_terminal();
            render::text(&sections, args.colour.is_on(is_terminal))
        }
        ReviewFormat::Markdown => render::markdown(&sections),
        ReviewFormat::Html => render::page(&sections),
    };
    let mut out = output_file::create(args.output.as_deref())?;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Ok)
}
