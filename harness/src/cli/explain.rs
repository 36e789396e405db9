//! `plumbline explain`: a fixture in detail: promise, steps, and the transcript of a run.

use std::io::{self, Write};

use super::CliError;
use super::select::{FixturesFolder, Selection};
use crate::exit::Exit;
use crate::fixture::Fixture;
use crate::report::JudgedRun;
use crate::runner::suite::{self, RunOptions, TestBed};

/// Maximum number of fixtures to explain.
const LIMIT: usize = 20;

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// The fixture's id, or a filter as for `run`
    #[arg(value_name = "FIXTURE")]
    fixture: String,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Runs the verb.
pub(super) fn main(args: &ExplainArgs) -> Result<Exit, CliError> {
    let arena = TestBed::embedded();
    let select = Selection::one(&args.fixture, &args.folder);
    let fixtures = select.load()?;
    let chosen: Vec<Fixture> = match fixtures.iter().find(|fixture| fixture.id == args.fixture) {
        Some(exact) => vec![exact.clone()],
        None => select.plan(&fixtures, &arena.capabilities())?.runs().cloned().collect(),
    };
    let shown = &chosen[..chosen.len().min(LIMIT)];
    let mut judged: Vec<Option<JudgedRun>> = vec![None; shown.len()];
    suite::run_all(shown, &arena, RunOptions::one_by_one(), |index, result| {
        judged[index] = Some(result);
        true
    });
    let mut out = io::BufWriter::new(super::stdout());
    let mut exit = Exit::Ok;
    for (fixture, judged) in shown.iter().zip(judged.into_iter().flatten()) {
        if judged.report.has_failed() {
            exit = Exit::FixturesFailed;
        }
        explain(fixture, &judged, &mut out)?;
    }
    if shown.len() < chosen.len() {
        writeln!(out, "… and {} more", chosen.len() - shown.len())?;
    }
    out.flush()?;
    Ok(exit)
}

fn explain(fixture: &Fixture, judged: &JudgedRun, out: &mut impl Write) -> io::Result<()> {
    let bar = "─".repeat(fixture.id.chars().count());
    writeln!(out, "{}\n{bar}", fixture.id)?;
    writeln!(out, "promise   {}", fixture.promise)?;
    writeln!(out, "rules     {}", fixture.rules.join(" "))?;
    writeln!(out, "level     {} ({})", fixture.level, fixture.feature)?;
    if !fixture.source.is_empty() {
        writeln!(out, "source    {}", fixture.source.join(", "))?;
    }
    if let Some(row) = &fixture.row {
        let values: Vec<String> = row.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "row       {} ({})", row.id, values.join(", "))?;
    }
    let controllers: Vec<&str> = fixture.controllers.iter().map(|controller| controller.as_str()).collect();
    let flags: Vec<String> = fixture.flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    writeln!(out, "runs      {} {}", controllers.join(", "), flags.join(" "))?;
    writeln!(out, "\n{}", fixture.file.display())?;
    source(fixture, out)?;
    writeln!(out, "\ntranscript")?;
    for line in judged.transcript.lines() {
        writeln!(out, "  {line}")?;
    }
    if judged.transcript.is_empty() {
        writeln!(out, "  (no writes)")?;
    }
    writeln!(out, "\noutcome   {}", judged.report.outcome.participle())?;
    for failure in &judged.report.failures {
        writeln!(out, "  ✗ {}", failure.to_string().replace('\n', "\n    "))?;
    }
    writeln!(out)
}

/// Prints the steps as written in the file.
fn source(fixture: &Fixture, out: &mut impl Write) -> io::Result<()> {
    let Ok(text) = std::fs::read_to_string(&fixture.file) else { return Ok(()) };
    for (number, line) in text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("given")) {
        writeln!(out, "  {:>3}  {line}", number + 1)?;
    }
    Ok(())
}
