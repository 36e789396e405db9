//! `plumbline review`: the changes of snapshots between two commits, equal ones once.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::ValueEnum;

use super::CliError;
use super::colour::ColourArgs;
use super::run::output;
use crate::exit::Exit;
use crate::html::plain_page;
use crate::review::history::{self, CommitRange, GitError};
use crate::review::{groups, render};

/// Flags of `review`.
#[derive(Debug, clap::Args)]
pub(super) struct ReviewArgs {
    /// The commits: `BASE..HEAD`, or `BASE` alone for the current commit. Compared is from where both have in common
    /// [default: main..HEAD]
    #[arg(value_name = "RANGE")]
    range: Option<String>,

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
    let failed = |error: GitError| CliError::Environment(error.to_string());
    let range = CommitRange::find(&args.repository, args.range.as_deref()).map_err(failed)?;
    let groups = groups(history::changes(&args.repository, &range).map_err(failed)?);
    let text = match args.format {
        ReviewFormat::Human => {
            let is_terminal = args.output.is_none() && io::stdout().is_terminal();
            render::text(&groups, args.colour.is_on(is_terminal))
        }
        ReviewFormat::Markdown => render::markdown(&groups),
        ReviewFormat::Html => plain_page("plumbline: changed snapshots", render::page(&groups)),
    };
    let mut out = output(args.output.as_deref())?;
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Ok)
}
