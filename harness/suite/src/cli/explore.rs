//! `plumbline explore`: injects faults into the histories of fixtures and judges the runs without their expectations.

use std::fs;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use plumbline::explore::faults::plan::Token;
use plumbline::fixture::Fixture;
use plumbline::fixture::parse::SCENARIO;
use plumbline::transcript::render::{render, to_text};

use super::error::CliError;
use super::explore_program::{self, ProgramArgs};
use super::output_file;
use super::select::{FixturesFolder, Selection};
use super::streams::notify;
use super::value::ValueError;
use crate::duration::parse_duration;
use crate::exit::Exit;
use crate::explore::findings::page::page;
use crate::explore::findings::report::ExploreReport;
use crate::explore::findings::shrink::shrink;
use crate::explore::histories::beginnings::find;
use crate::explore::judge::OracleVerdict;
use crate::explore::search::runs::{self, UnknownPoint};
use crate::explore::search::{self, Exploration, ExploreOptions, Progress, Strategy, canary};
use crate::process::signals;
use crate::runner::suite::TestBed;
use crate::subject::in_process::Replicas;

/// The flag of the folder for findings.
pub(super) const KEEP: &str = "--keep";

/// Wall time between two lines of progress.
pub(super) const PROGRESS: Duration = Duration::from_secs(10);

/// Flags of `explore`.
#[derive(Debug, clap::Args)]
pub(super) struct ExploreArgs {
    #[command(flatten)]
    pub(super) select: Selection,

    /// Start no run after this wall time; the report says how many plans were not tried
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(super) budget: Option<Duration>,

    /// Seed of the order of plans: the same seed gives the same order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// The plans to try
    #[arg(long, value_enum, default_value_t = Strategy::Single)]
    pub(super) strategy: Strategy,

    /// Number of random histories [default: as many as the budget allows, or 256 without a budget]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    worlds: Option<u64>,

    /// Try only this part of the plans, of so many: `2/4`; the parts of all machines together are everything. `index/4`
    /// is the part of a pod of an indexed Job
    #[arg(long, value_name = "K/N", value_parser = shard, default_value = "1/1")]
    pub(super) shard: (u64, u64),

    /// Number of runs in parallel [default: number of cores]
    #[arg(long, short, value_name = "N")]
    pub(super) jobs: Option<NonZero<usize>>,

    /// Leave out fixtures with more objects: each of their runs takes as long as many others
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "command")]
    most_objects: usize,

    /// Run at least this many replicas of the controllers with leader election
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=9),
        conflicts_with = "command"
    )]
    replicas: u8,

    /// Start no run after the first finding
    #[arg(long)]
    pub(super) fail_fast: bool,

    /// Run this one plan and show its transcript and its verdict
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["budget", "strategy", "shard", "format", "output"])]
    pub(super) replay: Option<Token>,

    /// Merge the JSON reports of all parts of an exploration instead of exploring; a folder means its files `*.json`
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["budget", "shard", "replay", "keep", "command"])]
    merge: Vec<PathBuf>,

    /// Do not shrink findings
    #[arg(long)]
    pub(super) no_shrink: bool,

    /// Write each shrunk finding as a fixture into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "no_shrink")]
    pub(super) keep: Option<PathBuf>,

    /// Format of the report
    #[arg(long, value_enum, default_value_t = ExploreFormat::Human)]
    pub(super) format: ExploreFormat,

    /// Write the report to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) program: ProgramArgs,
}

/// Report formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExploreFormat {
    /// Text
    Human,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
    /// `JUnit` XML, with --command
    Junit,
    /// One HTML page that loads nothing
    Html,
}

/// The word for the part that the index of a pod of an indexed Job selects.
const INDEX: &str = "index";
/// The variable in which an indexed Job gives each pod its index, from 0.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";

fn shard(text: &str) -> Result<(u64, u64), ValueError> {
    shard_of(text, std::env::var(JOB_INDEX).ok().as_deref())
}

fn shard_of(text: &str, index: Option<&str>) -> Result<(u64, u64), ValueError> {
    let wrong = || ValueError::new("expected K/N with 1 ≤ K ≤ N");
    let (part, of) = text.split_once('/').ok_or_else(wrong)?;
    let part = if part == INDEX {
        let index = index.and_then(|index| index.parse::<u64>().ok());
        let missing = format!("`index/N` is for the pods of an indexed Job: set {JOB_INDEX}, or write K/N");
        index.and_then(|index| index.checked_add(1)).ok_or_else(|| ValueError::new(missing))?
    } else {
        part.parse().unwrap_or_default()
    };
    let of: u64 = of.parse().unwrap_or_default();
    if (1..=of).contains(&part) { Ok((part, of)) } else { Err(wrong()) }
}

/// Runs the verb.
pub(super) fn main(args: &ExploreArgs) -> Result<Exit, CliError> {
    signals::install();
    args.output.iter().try_for_each(|path| output_file::ensure_writable(output_file::OUTPUT, path))?;
    args.keep.iter().try_for_each(|folder| output_file::ensure_writable_folder(KEEP, folder))?;
    if let Some(command) = args.program.command() {
        return explore_program::main(command, args);
    }
    if args.format == ExploreFormat::Junit {
        return Err(CliError::Usage("--format junit is for programs: it requires --command".to_owned()));
    }
    if !args.merge.is_empty() {
        let report = merged(&args.merge)?;
        write(args, &report)?;
        return Ok(exit(&report));
    }
    let mut test_bed = TestBed::embedded();
    if args.replicas > 1 {
        test_bed.subject = Arc::new(Replicas(args.replicas));
    }
    if let Some(token) = &args.replay {
        return replay(token, args.select.folder(), &test_bed);
    }
    let fixtures = args.select.load()?;
    let plan = args.select.plan(&fixtures, &test_bed.capabilities())?;
    let chosen: Vec<Fixture> = plan.runs().cloned().collect();
    let canary = canary::is_found().map_err(CliError::environment)?;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let options = ExploreOptions {
        jobs: args.jobs.map_or(cores, NonZero::get),
        seed: args.seed,
        strategy: args.strategy,
        budget: args.budget,
        shard: args.shard,
        most_objects: args.most_objects,
        fail_fast: args.fail_fast,
        worlds: args.worlds,
    };
    let mut next = PROGRESS;
    let watched = io::stderr().is_terminal();
    let exploration = search::explore(&chosen, &test_bed, &options, |progress| {
        if progress.wall >= next && (watched || progress.wall >= next + PROGRESS * 5) {
            notify(&line(&progress, args.budget));
            next = progress.wall + PROGRESS;
        }
    });
    let explored = if args.strategy == Strategy::Random { &[][..] } else { &chosen[..] };
    let mut report = ExploreReport::new(test_bed.subject.name(), &options, &exploration, canary, explored);
    if !args.no_shrink {
        shrink_all(&mut report, &chosen, &test_bed, &exploration);
    }
    if let Some(folder) = &args.keep {
        keep(folder, &report)?;
    }
    write(args, &report)?;
    Ok(exit(&report))
}

/// Reads the reports of all parts and merges them.
fn merged(files: &[PathBuf]) -> Result<ExploreReport, CliError> {
    let mut whole: Option<ExploreReport> = None;
    for path in &reports_of(files)? {
        let text = fs::read_to_string(path)
            .map_err(|error| CliError::Environment(format!("unable to read {}: {error}", path.display())))?;
        let part: ExploreReport = serde_json::from_str(&text).map_err(|error| {
            CliError::Refuted(format!("{} is not a report of explore --format json: {error}", path.display()))
        })?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole)
                if (&whole.subject, whole.seed, &whole.strategy) == (&part.subject, part.seed, &part.strategy) =>
            {
                whole.merge(part);
            }
            Some(_) => {
                let next = "merge parts with the same subject, --seed and --strategy";
                return Err(CliError::Refuted(format!("{} is a part of another exploration: {next}", path.display())));
            }
        }
    }
    whole.ok_or_else(|| CliError::Usage("--merge needs a report".to_owned()))
}

/// Returns `files` with each folder replaced by the reports in it.
fn reports_of(files: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut reports = Vec::new();
    for path in files {
        if !path.is_dir() {
            reports.push(path.clone());
            continue;
        }
        let failed = |error: io::Error| CliError::Environment(format!("unable to read {}: {error}", path.display()));
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            found.extend(file.extension().is_some_and(|name| name == "json").then_some(file));
        }
        if found.is_empty() {
            return Err(CliError::Nothing(format!("{} has no report *.json", path.display())));
        }
        found.sort();
        reports.extend(found);
    }
    Ok(reports)
}

/// Returns the exit code of a report.
fn exit(report: &ExploreReport) -> Exit {
    if !report.findings.is_empty() || !report.divergent.is_empty() {
        Exit::FixturesFailed
    } else if !report.canary {
        notify("plumbline: the planted bug was not found, so an exploration without findings means nothing");
        Exit::Bug
    } else if let Some(signal) = signals::requested() {
        notify(&format!("plumbline: interrupted by {signal}; the report covers the runs before it"));
        Exit::Environment
    } else if report.fixtures == 0 && report.worlds == 0 {
        Exit::NothingSelected
    } else if report.too_few().is_some() {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

/// Adds the shrunk fixture to each finding.
fn shrink_all(report: &mut ExploreReport, fixtures: &[Fixture], test_bed: &TestBed, exploration: &Exploration) {
    for (finding, (plan, _)) in report.findings.iter_mut().zip(exploration.findings.simplest()) {
        let Some(fixture) = find(fixtures, &plan.fixture) else { continue };
        match shrink(test_bed, &fixture, plan, &finding.fingerprint) {
            Ok(shrunk) => finding.fixture = Some(shrunk.text),
            Err(why) => notify(&format!("plumbline: unable to shrink {}: {why}", finding.fingerprint)),
        }
    }
}

/// Writes the shrunk findings as fixtures.
fn keep(folder: &Path, report: &ExploreReport) -> Result<(), CliError> {
    let fixtures = report.findings.iter().filter_map(|finding| {
        let text = finding.fixture.as_deref()?;
        Some((format!("{}.yaml", finding.file_name()), text))
    });
    output_file::write_all(KEEP, folder, fixtures)
}

pub(super) fn line(progress: &Progress, budget: Option<Duration>) -> String {
    let Progress { runs, done, planned, findings, wall } = progress;
    let seconds = wall.as_secs_f64();
    let rate = *runs as f64 / seconds;
    let rest = Duration::from_secs_f64(seconds / (*done).max(1) as f64 * (planned.saturating_sub(*done)) as f64);
    let rest = budget.map_or(rest, |budget| rest.min(budget.saturating_sub(*wall)));
    let left = rest.as_secs();
    if *planned == 0 {
        return format!("{runs} runs ({rate:.0}/s), {findings} findings");
    }
    format!("{done} of {planned} plans, {runs} runs ({rate:.0}/s), {findings} findings, {left} s left")
}

fn write(args: &ExploreArgs, report: &ExploreReport) -> Result<(), CliError> {
    let mut out = output_file::create(args.output.as_deref())?;
    match args.format {
        ExploreFormat::Human | ExploreFormat::Junit => report.write_text(out)?,
        ExploreFormat::Json => report.write_json(out)?,
        ExploreFormat::Html => {
            out.write_all(page(report).as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Runs one plan and shows it.
fn replay(token: &Token, folder: &FixturesFolder, test_bed: &TestBed) -> Result<Exit, CliError> {
    if token.fixture.starts_with(&format!("{SCENARIO}/")) {
        let next = format!("--replay {token} is a plan of a program: add --command and --scenario");
        return Err(CliError::Usage(next));
    }
    let fixtures = folder.load()?;
    let Some(fixture) = find(&fixtures, &token.fixture) else {
        return Err(CliError::Nothing(format!("there is no fixture {}; see `plumbline list`", token.fixture)));
    };
    let fixture = Arc::new(fixture);
    let (reference, alone) = runs::reference(test_bed, &fixture).map_err(|divergence| {
        CliError::Refuted(format!("the subject is not deterministic on {}: {divergence}", fixture.id))
    })?;
    let known = &reference.points;
    let plan = runs::resolve(test_bed, &reference, token).map_err(|UnknownPoint(missing)| {
        let some: Vec<String> = known.iter().take(40).map(ToString::to_string).collect();
        CliError::Usage(format!("{} has no point {missing}; it has {}", fixture.id, some.join(", ")))
    })?;
    let mut texts = String::new();
    let result = runs::run_plan(test_bed, &reference, plan, |record, entries| {
        texts = to_text(&render(record.start, &record.initial, entries));
    });
    let verdict = if token.faults.is_empty() { alone } else { result.verdict };
    let mut out = BufWriter::new(super::streams::stdout());
    show(&mut out, token, &texts, &verdict)?;
    Ok(if verdict.breaches.is_empty() { Exit::Ok } else { Exit::FixturesFailed })
}

fn show(out: &mut impl Write, token: &Token, transcript: &str, verdict: &OracleVerdict) -> io::Result<()> {
    writeln!(out, "{token}\n\n{transcript}")?;
    if let Some(why) = &verdict.unfit {
        writeln!(out, "the plan does not fit this fixture: {why}")?;
    }
    if verdict.diverged {
        writeln!(out, "the fault changed the history, so the end states were not compared")?;
    }
    for breach in &verdict.breaches {
        writeln!(out, "✗ {}\n    {}", breach.fingerprint(), breach.text)?;
    }
    if verdict.breaches.is_empty() {
        writeln!(out, "no breach")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::given("2/4", None, Some((2, 4)))]
    #[case::by_index("index/4", Some("3"), Some((4, 4)))]
    #[case::index_beyond_the_parts("index/4", Some("4"), None)]
    #[case::no_index("index/4", None, None)]
    #[case::zero("0/4", None, None)]
    #[case::no_number("a/4", Some("1"), None)]
    fn parts_of_an_exploration(#[case] text: &str, #[case] index: Option<&str>, #[case] wanted: Option<(u64, u64)>) {
        assert_eq!(shard_of(text, index).ok(), wanted);
    }
}
