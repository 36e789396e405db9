//! `plumbline compare`: two subjects on the same fixtures, transcript beside transcript.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use super::place::PlaceArgs;
use super::select::Select;
use super::{Error, talk};
use crate::conformance::compare::{Closeness, Comparison, Seen, compare};
use crate::exit::Exit;
use crate::fixture::Fixture;
use crate::report::{Event, FixtureReport, Outcome, Reporter};
use crate::runner::suite;
use crate::runner::verdict::Judged;
use crate::subject::in_process::InProcess;
use crate::subject::{Identity, Launch, Running, Subject};

/// Narrower terminals show one transcript below the other.
const SIDE_BY_SIDE: usize = 150;

/// How far apart times may be on the wall clock, unless --tolerance says more.
const WALL_TOLERANCE: Duration = Duration::from_secs(1);

/// Flags of `compare`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// First subject: `in-process` (with flags: `in-process --max-unavailable-rounding=down`), a command line as for
    /// --command, or `@FILE` with one in it
    #[arg(value_name = "A")]
    a: String,

    /// Second subject
    #[arg(value_name = "B")]
    b: String,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    place: PlaceArgs,

    /// Compare outcomes only, not transcripts
    #[arg(long)]
    outcomes: bool,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,

    /// How transcripts are shown
    #[arg(long, value_enum, default_value_t = View::Auto)]
    view: View,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Human,
    /// One JSON document (apiVersion plumbline/v1)
    Json,
}

/// How transcripts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    /// Side by side on a wide terminal, else one below the other
    Auto,
    /// One below the other, marked - and +
    Unified,
    /// Beside each other
    SideBySide,
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> Result<Exit, Error> {
    let fixtures = args.select.load()?;
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    let (seen_a, wall_a) = run(args, &fixtures, &a)?;
    let (seen_b, wall_b) = run(args, &fixtures, &b)?;
    let tolerance = if wall_a || wall_b { args.place.tolerance().max(WALL_TOLERANCE) } else { Duration::ZERO };
    let closeness = Closeness { outcomes_only: args.outcomes, tolerance };
    let comparison = compare([args.a.as_str(), args.b.as_str()], &seen_a, &seen_b, closeness);
    let ran = |(report, _): &Seen| !matches!(report.outcome, Outcome::Skip | Outcome::Unsupported | Outcome::NotRun);
    if !seen_a.iter().chain(&seen_b).any(ran) {
        return Err(Error::Nothing("every selected fixture was skipped, by both".to_owned()));
    }
    show(args, &comparison)?;
    Ok(if comparison.is_equal() { Exit::Ok } else { Exit::Differ })
}

fn show(args: &Args, comparison: &Comparison) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, comparison)?;
            writeln!(out)?;
        }
        Format::Human => write!(out, "{}", comparison.text(width(args.view)))?,
    }
    out.flush()
}

/// Columns to write side by side in.
fn width(view: View) -> Option<usize> {
    let terminal = || {
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| io::stdout().is_terminal());
        size.map(|(width, _)| usize::from(width.0))
    };
    match view {
        View::Unified => None,
        View::Auto => terminal().filter(|width| *width >= SIDE_BY_SIDE),
        View::SideBySide => Some(terminal().unwrap_or(SIDE_BY_SIDE)),
    }
}

/// One of the two subjects.
enum Side {
    /// Our controllers, with these flags besides the fixture's.
    InProcess(BTreeMap<String, String>),
    /// A command line.
    Command(String),
}

fn side(text: &str) -> Result<Side, Error> {
    let text = match text.strip_prefix('@') {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Error::Environment(format!("unable to read {file}: {error}")))?,
        None => text.to_owned(),
    };
    let words = shell_words::split(&text).map_err(|error| Error::Usage(format!("`{}`: {error}", text.trim())))?;
    match words.split_first() {
        None => Err(Error::Usage("a subject is empty: write `in-process` or a command line".to_owned())),
        Some((first, rest)) if first == "in-process" => {
            rest.iter().map(|word| flag(word)).collect::<Result<_, _>>().map(Side::InProcess)
        }
        Some(_) => Ok(Side::Command(text.trim().to_owned())),
    }
}

fn flag(word: &str) -> Result<(String, String), Error> {
    let parts = word.strip_prefix("--").and_then(|word| word.split_once('='));
    let (name, value) = parts.ok_or_else(|| Error::Usage(format!("in-process: write `{word}` as --flag=value")))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the selected fixtures; also says whether that was on the wall clock.
fn run(args: &Args, fixtures: &[Fixture], side: &Side) -> Result<(Vec<Seen>, bool), Error> {
    let command = match side {
        Side::InProcess(_) => None,
        Side::Command(command) => Some(command.as_str()),
    };
    let mut place = args.place.with_subject(command)?.start(false)?;
    if let Side::InProcess(flags) = side {
        place.arena.subject = Arc::new(Flagged(flags.clone()));
    }
    let plan = args.select.plan(fixtures, &place.arena.place())?;
    talk(&format!("plumbline: {} fixtures on {}", plan.entries.len(), place.arena.subject.name()));
    let mut seen = Gather::default();
    let is_virtual = place.arena.cluster.is_virtual();
    let run = suite::run(&plan, &place.arena, place.options, &mut seen);
    place.close()?;
    run?;
    Ok((seen.0, !is_virtual))
}

/// Keeps results with their transcripts.
#[derive(Default)]
struct Gather(Vec<Seen>);

impl Reporter for Gather {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => {}
            Event::Finished(Judged { report, transcript, .. }) => self.0.push((report.clone(), transcript.clone())),
            Event::Ended(run) => {
                let ran = |outcome| matches!(outcome, Outcome::Pass | Outcome::Fail | Outcome::Flaky);
                let rest = run.fixtures.iter().filter(|fixture: &&FixtureReport| !ran(fixture.outcome));
                self.0.extend(rest.map(|fixture| (fixture.clone(), String::new())));
            }
        }
        Ok(())
    }
}

/// Our own controllers with flags that no fixture asks for.
struct Flagged(BTreeMap<String, String>);

impl Subject for Flagged {
    fn name(&self) -> &str {
        InProcess.name()
    }

    fn identity(&self) -> Result<Identity, String> {
        InProcess.identity()
    }

    fn controllers(&self) -> std::collections::BTreeSet<crate::fixture::Controller> {
        InProcess.controllers()
    }

    fn features(&self) -> std::collections::BTreeSet<String> {
        InProcess.features()
    }

    fn lacks(&self) -> std::collections::BTreeSet<crate::fixture::Capability> {
        InProcess.lacks()
    }

    fn is_virtual(&self) -> bool {
        InProcess.is_virtual()
    }

    /// A fixture's own flags come first.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, String> {
        let mut flags = self.0.clone();
        flags.extend(launch.flags.clone());
        InProcess.launch(&Launch { flags: &flags, ..*launch })
    }
}
