//! `plumbline list`: lists fixtures.

use std::io::{self, Write};

use clap::ValueEnum;

use super::error::CliError;
use super::select::Selection;
use crate::exit::Exit;
use crate::plan::{Capabilities, Plan};

/// Flags of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    select: Selection,

    /// Format of the list
    #[arg(long, value_enum, default_value_t = ListFormat::Human)]
    format: ListFormat,

    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Formats of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// A table
    Human,
    /// One JSON object per line
    Json,
}

/// Runs the verb.
pub(super) fn main(args: &ListArgs) -> Result<Exit, CliError> {
    let fixtures = args.select.load()?;
    let plan = args.select.plan(&fixtures, &Capabilities::everything())?;
    let mut out = io::BufWriter::new(super::streams::stdout());
    let written =
        if args.json || args.format == ListFormat::Json { json(&plan, &mut out) } else { table(&plan, &mut out) };
    written.and_then(|()| out.flush())?;
    Ok(Exit::Ok)
}

fn table(plan: &Plan<'_>, out: &mut impl Write) -> io::Result<()> {
    let fixtures = || plan.entries.iter().map(|entry| entry.fixture);
    let width = fixtures().map(|fixture| fixture.id.len()).max().unwrap_or_default();
    for fixture in fixtures() {
        let rules = fixture.rules.join(" ");
        writeln!(out, "{:<width$}  {:<11}  {}  [{rules}]", fixture.id, fixture.level.as_str(), fixture.promise)?;
    }
    Ok(())
}

fn json(plan: &Plan<'_>, out: &mut impl Write) -> io::Result<()> {
    for fixture in plan.entries.iter().map(|entry| entry.fixture) {
        let line = serde_json::json!({
            "id": fixture.id,
            "file": fixture.file,
            "level": fixture.level.as_str(),
            "feature": fixture.feature,
            "rules": fixture.rules,
            "promise": fixture.promise,
            "since": fixture.releases.since.map(|release| release.to_string()),
            "until": fixture.releases.until.map(|release| release.to_string()),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
