//! `plumbline repeat`: runs fixtures repeatedly until a result differs.

use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::time::Duration;

use plumbline::fixture::Fixture;

use super::select::Selection;
use super::{CliError, memory, notify};
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
}

fn jobs(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|error| format!("{error} (use a form like 4 or 1..8)"));
    let from = number(from)?;
    let to = number(to)?;
    if (1..=to).contains(&from) && to <= 1024 {
        Ok(from..=to)
    } else {
        Err("expected an ascending range within 1..1024".to_owned())
    }
}

/// Runs the verb. `explain_flags` are the flags with which `explain` runs the same fixtures.
pub(super) fn main(args: &RepeatArgs, explain_flags: &str) -> Result<Exit, CliError> {
    signals::install();
    memory::use_small_pages();
    let arena = TestBed::embedded();
    let fixtures = args.select.load()?;
    let plan = args.select.plan(&fixtures, &arena.capabilities())?;
    let fixtures: Vec<Fixture> = plan.runs().cloned().collect();
    let rounds = Rounds { runs: args.runs.get(), seed: args.seed, jobs: args.jobs.clone(), at_most: args.at_most };
    let watched = io::stderr().is_terminal();
    let report_progress = |same: RoundsResult| {
        if watched || same.runs.is_multiple_of(50) {
            notify(&format!("{} of {} runs, {} s", same.runs, rounds.runs, same.wall.as_secs()));
        }
    };
    match repeat::run(&fixtures, &arena, &rounds, report_progress) {
        Ok(same) => {
            let count = fixtures.len();
            let runs = same.runs;
            let seconds = same.wall.as_secs();
            let seed = rounds.seed;
            let jobs = args.jobs.clone();
            let (from, to) = jobs.into_inner();
            writeln!(
                super::stdout(),
                "{count} fixtures, {runs} runs of each, shuffled (seed {seed}), {from} to {to} jobs, {seconds} s: no difference"
            )?;
            let Some(signal) = signals::requested() else { return Ok(Exit::Ok) };
            notify(&format!("plumbline: interrupted by {signal} after {runs} of {} runs", rounds.runs));
            Ok(Exit::Environment)
        }
        Err(flake) => {
            writeln!(super::stdout(), "{flake}\n  more: {}", explain_command(&flake.id, explain_flags))?;
            notify(&format!(
                "plumbline: not deterministic; to reproduce: plumbline repeat --seed {} --runs {}",
                rounds.seed, flake.run
            ));
            Ok(Exit::FixturesFailed)
        }
    }
}
