//! `plumbline repeat`: runs fixtures repeatedly until a result differs.

use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::time::Duration;

use plumbline::fixture::Fixture;

use super::environment::{CommandArgs, EnvironmentArgs};
use super::error::CliError;
use super::guests::FixturesApart;
use super::memory;
use super::select::Selection;
use super::streams::notify;
use super::value::ValueError;
use crate::duration::parse_duration;
use crate::exit::Exit;
use crate::process::signals;
use crate::report::explain_command;
use crate::runner::repeat::{self, Rounds, RoundsResult};
use crate::runner::suite::TestBed;

/// Flags of `repeat`.
#[derive(Debug, clap::Args)]
pub(super) struct RepeatArgs {
    #[command(flatten)]
    select: Selection,

    /// Number of runs of each fixture
    #[arg(long, value_name = "N", default_value = "1000")]
    runs: NonZero<u32>,

    /// Seed of the shuffles: the same seed gives the same orders
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Number of fixtures that run in parallel: each number of the range in turn
    #[arg(long, short, value_name = "N..M", value_parser = jobs, default_value = "1..8")]
    jobs: RangeInclusive<usize>,

    /// Start no new round after this wall time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    at_most: Option<Duration>,

    /// Run this command line, quoted as for a shell, in virtual time instead of our own controllers. Its runs are
    /// compared by what happens to each object at each time, and all that differ are listed at the end. For the
    /// placeholders see `run --help`
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,

    #[command(flatten)]
    about: CommandArgs,
}

impl RepeatArgs {
    /// Returns true if this process has to be traced, because it cannot run fixtures in processes of their own.
    pub(super) fn needs_guest(&self) -> bool {
        let command = self.command.as_deref();
        let environment = command.map(|command| EnvironmentArgs::of_command(command, self.about.clone()));
        // Wrong flags are reported later.
        matches!(environment, Some(Ok(environment)) if environment.needs_guest() && !environment.runs_apart())
    }
}

fn jobs(text: &str) -> Result<RangeInclusive<usize>, ValueError> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number =
        |text: &str| text.parse().map_err(|error| ValueError::new(format!("{error} (use a form like 4 or 1..8)")));
    let from = number(from)?;
    let to = number(to)?;
    if (1..=to).contains(&from) && to <= 1024 {
        Ok(from..=to)
    } else {
        Err(ValueError::new("expected an ascending range within 1..1024"))
    }
}

/// Runs the verb. `explain_flags` are the flags with which `explain` runs the same fixtures.
pub(super) fn main(args: &RepeatArgs, explain_flags: &str) -> Result<Exit, CliError> {
    signals::install();
    memory::use_small_pages();
    let rounds = Rounds {
        runs: args.runs.get(),
        seed: args.seed,
        jobs: args.jobs.clone(),
        at_most: args.at_most,
        goes_on: args.command.is_some(),
    };
    let Some(command) = &args.command else { return repeat(args, &rounds, &TestBed::embedded(), explain_flags) };
    let apart = FixturesApart { flags: explain_flags, ..FixturesApart::default() };
    let environment = EnvironmentArgs::of_command(command, args.about.clone())?.start_apart(false, apart)?;
    let exit = repeat(args, &rounds, &environment.test_bed, explain_flags);
    environment.close()?;
    exit
}

fn repeat(args: &RepeatArgs, rounds: &Rounds, test_bed: &TestBed, explain_flags: &str) -> Result<Exit, CliError> {
    let fixtures = args.select.load()?;
    let plan = args.select.plan(&fixtures, &test_bed.capabilities())?;
    let fixtures: Vec<Fixture> = plan.runs().cloned().collect();
    let watched = io::stderr().is_terminal();
    let report_progress = |same: RoundsResult| {
        if watched || same.runs.is_multiple_of(50) {
            notify(&format!("{} of {} runs, {} s", same.runs, rounds.runs, same.wall.as_secs()));
        }
    };
    let result = repeat::run(&fixtures, test_bed, rounds, report_progress);
    let count = fixtures.len();
    let runs = result.runs;
    let seconds = result.wall.as_secs();
    let (from, to) = args.jobs.clone().into_inner();
    let mut out = super::streams::stdout();
    let header = format!(
        "{count} fixtures, {runs} runs of each, shuffled (seed {}), {from} to {to} jobs, {seconds} s",
        rounds.seed
    );
    if result.flakes.is_empty() {
        writeln!(out, "{header}: no difference")?;
        let Some(signal) = signals::requested() else { return Ok(Exit::Ok) };
        notify(&format!("plumbline: interrupted by {signal} after {runs} of {} runs", rounds.runs));
        return Ok(Exit::Environment);
    }
    for flake in &result.flakes {
        writeln!(out, "{flake}\n  more: {}", explain_command(&flake.id, explain_flags))?;
    }
    if rounds.goes_on {
        writeln!(out, "{header}: {} fixtures differ", result.flakes.len())?;
    }
    let seed = rounds.seed;
    let run = result.flakes.last().map_or(1, |flake| flake.run);
    let filters = args.select.words();
    let words = ["plumbline repeat", &filters, explain_flags].into_iter().filter(|words| !words.is_empty());
    let words = words.collect::<Vec<_>>().join(" ");
    notify(&format!("plumbline: not deterministic; to reproduce: {words} --seed {seed} --runs {run} -j {from}..{to}"));
    Ok(Exit::FixturesFailed)
}
