//! `plumbline compare`: two subjects on the same fixtures, with a diff of the transcripts.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use plumbline::fixture::Fixture;
use plumbline::transcript::by_object::{by_object, slowest_start};

use super::environment::{CommandArgs, EnvironmentArgs};
use super::error::CliError;
use super::guests::FixturesApart;
use super::select::Selection;
use super::streams::notify;
use super::{hint, output_file};
use crate::cluster::ClusterTime;
use crate::conformance::compare::{CompareOptions, ComparedRun, Comparison, compare};
use crate::exit::Exit;
use crate::html::{self, TimelineTexts, comparison_page};
use crate::report::{Event, FixtureReport, JudgedRun, Outcome, Reporter};
use crate::runner::suite;
use crate::subject::in_process::InProcess;
use crate::subject::{Identity, Launch, Running, Subject, SubjectError};

/// Minimum width of a terminal for the side-by-side view.
const SIDE_BY_SIDE: usize = 150;

/// Minimum tolerance for times in wall time.
const WALL_TOLERANCE: Duration = Duration::from_secs(1);

/// Flags of `compare`.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// First subject: `in-process` (flags allowed: `in-process --max-unavailable-rounding=down`), a command line as for
    /// --command, or `@FILE` that contains one
    #[arg(value_name = "A")]
    a: String,

    /// Second subject
    #[arg(value_name = "B")]
    b: String,

    #[command(flatten)]
    select: Selection,

    /// Flags about the command (--companion, --metrics-url, --features, …) for A only, quoted as for a shell; they
    /// replace those given directly
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    a_flags: Option<String>,

    /// The same for B
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    b_flags: Option<String>,

    /// Compare outcomes only, not transcripts
    #[arg(long)]
    outcomes: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = CompareFormat::Human)]
    format: CompareFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Layout of transcripts
    #[arg(long, value_enum, default_value_t = Layout::Auto)]
    view: Layout,

    #[command(flatten)]
    environment: EnvironmentArgs,
}

impl CompareArgs {
    /// Returns the environments of the subjects that are commands. Errors in the flags are reported later.
    pub(super) fn environments(&self) -> impl Iterator<Item = EnvironmentArgs> {
        [&self.a, &self.b].into_iter().filter_map(|text| match side(text) {
            Ok(ComparedSubject::Command(command)) => self.environment.with_subject(Some(&command), None).ok(),
            _ => None,
        })
    }
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompareFormat {
    /// Text for a terminal
    Human,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
    /// One HTML page with both timelines of each fixture that differs
    Html,
}

/// Layouts of transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Side by side on a wide terminal, otherwise unified
    Auto,
    /// Below each other, marked - and +
    Unified,
    /// Side by side
    SideBySide,
}

/// Runs the verb. `given` are the flags as they were given, for the commands that explain differences.
pub(super) fn main(args: &CompareArgs, given: &ArgMatches) -> Result<Exit, CliError> {
    let fixtures = args.select.load()?;
    let a = side(&args.a)?;
    let b = side(&args.b)?;
    let about = |flags: &Option<String>| flags.as_deref().map(CommandArgs::read).transpose();
    let about_a = about(&args.a_flags)?;
    let about_b = about(&args.b_flags)?;
    let flags = [explain_flags(&a, args.a_flags.as_deref(), given), explain_flags(&b, args.b_flags.as_deref(), given)];
    let [flags_a, flags_b] = flags.each_ref().map(|flags| flags.as_deref().unwrap_or_default());
    let (gathered_a, order_a) = run(args, &fixtures, &a, (about_a, flags_a))?;
    let (gathered_b, order_b) = run(args, &fixtures, &b, (about_b, flags_b))?;
    let order = order_a.max(order_b);
    let tolerance =
        if order == RunOrder::Late { args.environment.tolerance().max(WALL_TOLERANCE) } else { Duration::ZERO };
    let options = CompareOptions { outcomes_only: args.outcomes, tolerance };
    let [(seen_a, runs_a), (seen_b, runs_b)] = [gathered_a, gathered_b].map(|gathered| gathered.seen(order));
    let comparison = compare([args.a.as_str(), args.b.as_str()], &seen_a, &seen_b, options);
    let ran = |seen: &ComparedRun| seen.report.outcome.has_run();
    if !seen_a.iter().chain(&seen_b).any(ran) {
        return Err(CliError::Nothing("both subjects skipped every selected fixture".to_owned()));
    }
    show(args, &comparison, [&runs_a, &runs_b], &flags)?;
    if comparison.not_comparable.len() == comparison.fixtures {
        return Err(CliError::Nothing("no fixture ran on both subjects: each was skipped by one of them".to_owned()));
    }
    let is_inconclusive = |seen: &ComparedRun| seen.report.outcome == Outcome::Inconclusive;
    Ok(if !comparison.is_equal() {
        Exit::Differ
    } else if seen_a.iter().chain(&seen_b).any(is_inconclusive) {
        Exit::Inconclusive
    } else {
        Exit::Ok
    })
}

/// Returns the flags with which `explain` runs one of the subjects; `None` if no flags do, because it is our own
/// controllers with flags.
fn explain_flags(side: &ComparedSubject, about: Option<&str>, given: &ArgMatches) -> Option<String> {
    let subject = match side {
        ComparedSubject::InProcess(flags) if !flags.is_empty() => return None,
        ComparedSubject::InProcess(_) => String::new(),
        ComparedSubject::Command(command) => format!("--command {}", shell_words::quote(command)),
    };
    // As in `EnvironmentArgs::with_subject`: the flags of one side replace the others, which are about a command.
    let is_about_it = about.is_none() && matches!(side, ComparedSubject::Command(_));
    let others = if is_about_it { hint::explain_flags(given) } else { hint::flags_about_no_command(given) };
    let words = [subject.as_str(), about.unwrap_or_default(), &others];
    Some(words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

fn show(
    args: &CompareArgs,
    comparison: &Comparison,
    runs: [&TimelineTexts; 2],
    [a, b]: &[Option<String>; 2],
) -> Result<(), CliError> {
    let mut out = output_file::create(args.output.as_deref())?;
    match args.format {
        CompareFormat::Json => {
            serde_json::to_writer_pretty(&mut out, comparison).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        CompareFormat::Html => {
            let page = comparison_page(comparison, runs, |file| html::source(Path::new(file)));
            out.write_all(page.as_bytes())?;
            for difference in &comparison.differences {
                if let Some(file) = &args.output {
                    notify(&format!("{}  {}#{}", difference.id, file.display(), difference.id));
                }
            }
        }
        CompareFormat::Human => {
            write!(out, "{}", comparison.text(width(args.view), [a.as_deref(), b.as_deref()]))?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the width for the side-by-side view; `None` for the unified view.
fn width(view: Layout) -> Option<usize> {
    let terminal = || {
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| io::stdout().is_terminal());
        size.map(|(width, _)| usize::from(width.0))
    };
    match view {
        Layout::Unified => None,
        Layout::Auto => terminal().filter(|width| *width >= SIDE_BY_SIDE),
        Layout::SideBySide => Some(terminal().unwrap_or(SIDE_BY_SIDE)),
    }
}

/// One of the two subjects.
enum ComparedSubject {
    /// Our controllers, with these flags in addition to the fixture's.
    InProcess(BTreeMap<String, String>),
    /// A command line.
    Command(String),
}

fn side(text: &str) -> Result<ComparedSubject, CliError> {
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| CliError::Environment(format!("unable to read {file}: {error}")))?,
        None => text.to_owned(),
    };
    let words = shell_words::split(&text).map_err(|error| CliError::Usage(format!("`{}`: {error}", text.trim())))?;
    match words.split_first() {
        None => Err(CliError::Usage("a subject is empty: use `in-process` or a command line".to_owned())),
        Some((first, rest)) if first == "in-process" => {
            rest.iter().map(|word| flag(word)).collect::<Result<_, _>>().map(ComparedSubject::InProcess)
        }
        Some(_) => Ok(ComparedSubject::Command(text.trim().to_owned())),
    }
}

fn flag(word: &str) -> Result<(String, String), CliError> {
    let parts = word.strip_prefix("--").and_then(|word| word.split_once('='));
    let (name, value) = parts.ok_or_else(|| CliError::Usage(format!("in-process: write `{word}` as --flag=value")))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the selected fixtures. `flags` select the subject and its cluster, as those `about` it do.
fn run<'a>(
    args: &CompareArgs,
    fixtures: &'a [Fixture],
    side: &ComparedSubject,
    (about, flags): (Option<CommandArgs>, &str),
) -> Result<(ResultCollector<'a>, RunOrder), CliError> {
    let command = match side {
        ComparedSubject::InProcess(_) => None,
        ComparedSubject::Command(command) => Some(command.as_str()),
    };
    let apart = FixturesApart { flags, ..FixturesApart::default() };
    let mut environment = args.environment.with_subject(command, about)?.start_apart(false, apart)?;
    environment.options.keeps_records = true;
    if let ComparedSubject::InProcess(flags) = side {
        environment.test_bed.subject = Arc::new(InProcessWithFlags(flags.clone()));
    }
    let plan = args.select.plan(fixtures, &environment.test_bed.capabilities())?;
    notify(&format!("plumbline: {} fixtures on {}", plan.entries.len(), environment.test_bed.subject.name()));
    let html = args.format == CompareFormat::Html;
    let fixtures = fixtures.iter().filter(|_| html).map(|fixture| (fixture.id.as_str(), fixture)).collect();
    let mut seen = ResultCollector { fixtures, ..ResultCollector::default() };
    let cluster = &environment.test_bed.cluster;
    let order = match cluster.time() {
        ClusterTime::Virtual => RunOrder::Exact,
        ClusterTime::Traced if cluster.is_exact() => RunOrder::Instant,
        ClusterTime::Traced | ClusterTime::Wall => RunOrder::Late,
    };
    let run = suite::run(&plan, &environment.test_bed, environment.options, &mut seen);
    environment.close()?;
    run?;
    Ok((seen, order))
}

/// The parts of a transcript that repeat from run to run, from all to the fewest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RunOrder {
    /// Everything: time is virtual in this process.
    Exact,
    /// Times; within an instant the requests about each object: the threads of traced programs run side by side.
    Instant,
    /// The order of the requests about each object; times differ a little: the clock is real.
    Late,
}

/// Collects results with their transcripts; the second transcript is the one grouped by object.
#[derive(Default)]
struct ResultCollector<'a> {
    results: Vec<(ComparedRun, String)>,
    /// The fixtures whose timelines are collected.
    fixtures: BTreeMap<&'a str, &'a Fixture>,
    timelines: TimelineTexts,
}

impl ResultCollector<'_> {
    /// Returns the results to compare, and the timelines. `order` is what both subjects have in common.
    fn seen(self, order: RunOrder) -> (Vec<ComparedRun>, TimelineTexts) {
        let choose = |(seen, by_object)| {
            if order > RunOrder::Exact { ComparedRun { transcript: by_object, ..seen } } else { seen }
        };
        (self.results.into_iter().map(choose).collect(), self.timelines)
    }

    fn keep(&mut self, report: &FixtureReport, transcript: &str, leeway: Duration, by_object: String) {
        self.results
            .push((ComparedRun { report: report.clone(), transcript: transcript.to_owned(), leeway }, by_object));
    }
}

impl Reporter for ResultCollector<'_> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => {}
            Event::Finished(judged) => {
                let JudgedRun { report, transcript, entries, start, leeway, .. } = judged;
                if let Some(fixture) = self.fixtures.get(report.id.as_str()) {
                    let timeline = serde_json::to_string(&html::timeline(Some(fixture), judged))?;
                    self.timelines.insert(report.id.clone(), timeline);
                }
                let leeway = if leeway.is_zero() { *leeway } else { *leeway + slowest_start(entries) };
                self.keep(report, transcript, leeway, by_object(*start, entries));
            }
            Event::Ended(run) => {
                for fixture in &run.fixtures {
                    if !self.results.iter().any(|(seen, _)| seen.report.id == fixture.id) {
                        self.keep(fixture, "", Duration::ZERO, String::new());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Our own controllers with additional flags.
struct InProcessWithFlags(BTreeMap<String, String>);

impl Subject for InProcessWithFlags {
    fn name(&self) -> &str {
        InProcess.name()
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        InProcess.identity()
    }

    fn controllers(&self) -> std::collections::BTreeSet<plumbline::fixture::Controller> {
        InProcess.controllers()
    }

    fn features(&self) -> std::collections::BTreeSet<String> {
        InProcess.features()
    }

    fn lacks(&self) -> std::collections::BTreeSet<plumbline::fixture::Capability> {
        InProcess.lacks()
    }

    fn is_virtual(&self) -> bool {
        InProcess.is_virtual()
    }

    /// A fixture's own flags take precedence.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        let mut flags = self.0.clone();
        flags.extend(launch.flags.clone());
        InProcess.launch(&Launch { flags: &flags, ..*launch })
    }
}
