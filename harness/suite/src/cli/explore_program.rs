//! `plumbline explore --command`: the same for any program, with scenarios instead of fixtures.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use plumbline::explore::faults::plan::Token;
use plumbline::fixture::{Problem, Problems};
use plumbline::time::Stopwatch;
use plumbline::world::server_resources;
use serde_json::Value;

use super::environment::{self, variable};
use super::error::CliError;
use super::explore::{self, ExploreArgs, ExploreFormat};
use super::manifests::{self, SeedObject};
use super::streams::notify;
use super::value::ValueError;
use super::{output_file, serve};
use crate::duration::parse_duration;
use crate::exit::Exit;
use crate::explore::programs::candidates::FaultProfile;
use crate::explore::programs::delayed::Delayed;
use crate::explore::programs::job::{ExploredProgram, Facts, PlannedFault, Scenario};
use crate::explore::programs::launch::Launcher;
use crate::explore::programs::oracles::{self, ORACLES};
use crate::explore::programs::page::page;
use crate::explore::programs::reference::{Reference, ReferenceError};
use crate::explore::programs::report::{ProgramReport, ScenarioReport};
use crate::explore::programs::search::{self, Explored, ProgramOptions};
use crate::explore::programs::shrink::shrink;
use crate::explore::programs::subject::{ScenarioSubject, subject as scenario_subject};
use crate::explore::programs::worker::BEGINNING;
use crate::explore::search::Strategy;
use crate::explore::search::runs::UnknownPoint;
use crate::guest::ProgramTime;
use crate::process::tempdir::RunDir;
use crate::process::{self, signals};

/// Flags of `explore` for any program.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Any program")]
pub(super) struct ProgramArgs {
    /// Explore this program instead of Plumbline's own controllers: its command line, quoted as for a shell. It is
    /// started again for each plan. `{kubeconfig}`, `{server}`, `{token}`, `{token-file}`, `{ca-file}` and `{port}` are
    /// replaced; the variable KUBECONFIG is set
    #[arg(long, value_name = "COMMAND", requires = "scenario")]
    command: Option<String>,

    /// The history to explore: objects and steps in the words of fixtures. May be repeated
    #[arg(long, value_name = "FILE", requires = "command")]
    scenario: Vec<PathBuf>,

    /// Objects that exist before the program starts, such as its custom resource definitions: YAML files or folders.
    /// May be repeated
    #[arg(long, value_name = "PATH", requires = "command")]
    manifests: Vec<PathBuf>,

    /// Environment variable for the command; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, requires = "command")]
    command_env: Vec<(String, String)>,

    /// The cluster around the program [default: the API server with garbage collection]
    #[arg(long, value_enum, value_name = "CLUSTER", requires = "command")]
    like: Option<ClusterAround>,

    /// Flags of `plumbline serve` for the cluster around the program, quoted as for a shell, such as
    /// `--nodes 3 --kubelet --loops gc,namespaces,jobs`
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, requires = "command")]
    serve_flags: Option<String>,

    /// YAML file with the roles and bindings of the program's service account. Requests that they do not permit get 403
    #[arg(long, value_name = "FILE", requires = "command")]
    subject_role: Option<PathBuf>,

    /// Time in which the program runs [default: virtual where programs can be traced]
    #[arg(long, value_enum, value_name = "TIME", requires = "command")]
    time: Option<ProgramTime>,

    /// Plain HTTP instead of HTTPS
    #[arg(long, requires = "command")]
    http: bool,

    /// Kinds of fault
    #[arg(long, value_enum, value_name = "PROFILE", default_value_t, requires = "command")]
    profile: FaultProfile,

    /// Try this many plans at most
    #[arg(long, value_name = "N", requires = "command")]
    plans: Option<NonZero<usize>>,

    /// Accept a program whose runs without faults have this part of their requests in common. Findings that do not
    /// repeat are marked
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part, requires = "command")]
    runs_alike: f64,

    /// Number of runs without faults: what differs between them is not compared
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        value_parser = clap::value_parser!(u8).range(2..=20),
        requires = "command"
    )]
    reference_runs: u8,

    /// Oracles that do not judge
    #[arg(long, value_name = "ORACLE", value_delimiter = ',', value_parser = oracle, requires = "command")]
    without: Vec<String>,

    /// Wall time after which a run counts as hanging
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", requires = "command")]
    run_limit: Duration,
}

/// Wall time after which no finding of a scenario is shrunk: `--budget` is for plans.
const SHRINKING: Duration = Duration::from_mins(5);

/// Programs that run scripts.
const INTERPRETERS: [&str; 10] = ["python", "node", "java", "bash", "sh", "ruby", "perl", "deno", "bun", "pypy"];

/// Clusters around a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClusterAround {
    /// A node with a kubelet, workloads, jobs, garbage collection, namespaces, volumes: as `serve --like kind`
    Kind,
}

fn part(text: &str) -> Result<f64, ValueError> {
    text.parse()
        .ok()
        .filter(|part| (0.0..=1.0).contains(part))
        .ok_or_else(|| ValueError::new("expected a number from 0 to 1"))
}

fn oracle(text: &str) -> Result<String, ValueError> {
    let known = || ORACLES.map(|(name, _)| name).join(", ");
    let found = ORACLES.iter().find(|(name, _)| *name == text);
    found.map(|(name, _)| (*name).to_owned()).ok_or_else(|| ValueError::new(format!("the oracles are {}", known())))
}

impl ProgramArgs {
    /// Returns the command line of the program.
    pub(super) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    fn program(&self, command: &str) -> Result<ExploredProgram, CliError> {
        let (first, argv) = environment::command_line(command)?;
        if !process::is_program(&first) {
            return Err(CliError::Environment(format!(
                "unable to start {first}: there is no such file; give --command a path, or the name of a program in PATH"
            )));
        }
        let stem = |path: &str| Path::new(path).file_stem().map(|name| name.to_string_lossy().into_owned());
        // An interpreter says less than its script.
        let interprets = stem(&first).is_some_and(|name| INTERPRETERS.iter().any(|it| name.starts_with(it)));
        let is_script = |word: &&String| interprets && !word.starts_with('-') && Path::new(word).is_file();
        let name = stem(argv.iter().skip(1).find(is_script).unwrap_or(&first));
        let like = self.like.is_some().then(|| ["--like", "kind"].map(str::to_owned));
        let mut around: Vec<String> = like.into_iter().flatten().collect();
        let flags = self.serve_flags.as_deref().unwrap_or_default();
        around.extend(shell_words::split(flags).map_err(|error| CliError::Usage(format!("--serve-flags: {error}")))?);
        serve::around(&around).map_err(|error| CliError::Usage(format!("--serve-flags: {error}")))?;
        Ok(ExploredProgram {
            name: name.unwrap_or(first),
            argv,
            env: self.command_env.clone(),
            http: self.http,
            role: self.subject_role.clone(),
            around,
        })
    }

    /// Returns the flags that repeat a run of the program.
    fn flags(&self, command: &str) -> String {
        let mut text = format!("--command {} ", shell_words::quote(command));
        let paths = |name: &str, paths: &[PathBuf]| -> String {
            let flag = |path: &PathBuf| format!("--{name} {} ", shell_words::quote(&path.display().to_string()));
            paths.iter().map(flag).collect::<Vec<_>>().concat()
        };
        text.push_str(&paths("manifests", &self.manifests));
        for (name, value) in &self.command_env {
            let _ = write!(text, "--command-env {} ", shell_words::quote(&format!("{name}={value}")));
        }
        if self.like.is_some() {
            text.push_str("--like kind ");
        }
        if let Some(flags) = &self.serve_flags {
            let _ = write!(text, "--serve-flags {} ", shell_words::quote(flags));
        }
        if self.http {
            text.push_str("--http ");
        }
        text.push_str(&paths("subject-role", self.subject_role.as_slice()));
        if self.runs_alike < 1.0 {
            let _ = write!(text, "--runs-alike {} ", self.runs_alike);
        }
        text
    }
}

/// Runs the verb for a program.
pub(super) fn main(command: &str, args: &ExploreArgs) -> Result<Exit, CliError> {
    let own = &args.program;
    if !args.select.is_empty() {
        return Err(CliError::Usage(
            "--command explores scenarios: name them with --scenario, without filters".to_owned(),
        ));
    }
    if args.strategy == Strategy::Order {
        return Err(CliError::Usage(
            "--strategy order is for Plumbline's own controllers: programs have single, pairs, random and all"
                .to_owned(),
        ));
    }
    let subjects = subjects(&own.program(command)?, own)?;
    let mut scratch = RunDir::create(None).map_err(CliError::environment)?;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let launcher = Launcher {
        time: own.time.unwrap_or(ProgramTime::usual()),
        limit: own.run_limit,
        folder: scratch.logs().to_owned(),
        worker: process::program().map_err(CliError::environment)?,
    };
    let options = ProgramOptions {
        jobs: args.jobs.map_or(cores, NonZero::get),
        seed: args.seed,
        strategy: args.strategy,
        profile: own.profile,
        budget: args.budget,
        plans: own.plans.map(NonZero::get),
        shard: args.shard,
        fail_fast: args.fail_fast,
        runs_alike: own.runs_alike,
        references: usize::from(own.reference_runs),
        without: own.without.iter().cloned().collect(),
    };
    let result = match &args.replay {
        Some(token) => replay(token, &subjects, &launcher, &options),
        None => explored(command, args, &subjects, &launcher, &options),
    };
    result.map_err(|error| environment::with_logs(error, &mut scratch))
}

/// Reads the scenarios.
fn subjects(program: &ExploredProgram, own: &ProgramArgs) -> Result<Vec<ScenarioSubject>, CliError> {
    let manifests = definitions(&own.manifests)?;
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).map_err(|error| {
            let problem = Problem::of_file(file, format!("unable to read the scenario: {error}"), None);
            CliError::BadFixtures(Problems(vec![problem]))
        })?;
        let scenario = Scenario { file: file.clone(), text, manifests: manifests.clone(), steps: None };
        scenario_subject(program, scenario).map_err(CliError::BadFixtures)
    };
    let subjects: Vec<ScenarioSubject> = own.scenario.iter().map(read).collect::<Result<_, _>>()?;
    let mut met: BTreeMap<&str, &Path> = BTreeMap::new();
    for subject in &subjects {
        if let Some(other) = met.insert(&subject.fixture.id, &subject.scenario.file) {
            let (one, other) = (other.display(), subject.scenario.file.display());
            return Err(CliError::Usage(format!(
                "{one} and {other} are both {}: give scenarios different file names",
                subject.fixture.id
            )));
        }
    }
    Ok(subjects)
}

/// Returns the objects of the manifests. Objects of unknown kinds in a folder are left out.
fn definitions(paths: &[PathBuf]) -> Result<Vec<Value>, CliError> {
    let found = manifests::manifests(paths).map_err(CliError::environment)?;
    let defined = found.iter().map(|(seed, _)| &seed.object);
    let known = server_resources(defined.clone());
    if !paths.is_empty() && !defined.clone().any(|object| object["kind"] == "CustomResourceDefinition") {
        notify("plumbline: --manifests: no custom resource definition among the objects");
    }
    let mut objects = Vec::new();
    let mut unknown = BTreeSet::new();
    for (SeedObject { object, .. }, in_folder) in found {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        match known.of_kind(text("apiVersion"), text("kind")) {
            Err(_) if in_folder => _ = unknown.insert(text("kind").to_owned()),
            _ => objects.push(object),
        }
    }
    unknown.remove("");
    if !unknown.is_empty() {
        let kinds = unknown.into_iter().collect::<Vec<_>>().join(", ");
        notify(&format!("plumbline: --manifests: left out objects of kinds that nothing defines: {kinds}"));
    }
    Ok(objects)
}

/// A scenario, or the beginning of one with the plans to try.
type ToExplore = (ScenarioSubject, Option<Vec<Vec<PlannedFault>>>);

/// Returns the beginnings of a scenario that may show what its later steps hide.
fn beginnings(subject: &ScenarioSubject, explored: &Explored) -> Vec<ToExplore> {
    let beginning =
        |(step, plans): (&usize, &Vec<Vec<PlannedFault>>)| Some((subject.beginning(*step).ok()?, Some(plans.clone())));
    explored.strayed.iter().filter_map(beginning).collect()
}

/// Makes the runs without faults, and says how far they are.
fn watched_reference(
    subject: &ScenarioSubject,
    launcher: &Launcher,
    options: &ProgramOptions,
) -> Result<Reference, ReferenceError> {
    let id = &subject.fixture.id;
    let count = options.references;
    notify(&format!("plumbline: {id}: {count} runs without faults, of up to {} s each", launcher.limit.as_secs()));
    let stopwatch = Stopwatch::start();
    let mut next = explore::PROGRESS;
    let reference = search::watched_reference(subject, launcher, options, |ended, facts| {
        let wall = stopwatch.elapsed();
        if ended < count && wall >= next {
            let hours = Duration::from_millis(facts.end).as_secs_f64() / 3600.0;
            let seconds = wall.as_secs();
            notify(&format!(
                "{ended} of {count} runs without faults in {seconds} s, the last one of {hours:.1} h of virtual time"
            ));
            next = wall + explore::PROGRESS;
        }
    })?;
    let seconds = stopwatch.elapsed().as_secs_f64();
    let requests = reference.facts.requests.len() + reference.facts.omitted;
    let points = reference.points().len();
    notify(&format!(
        "plumbline: {id}: the runs without faults took {seconds:.1} s; {requests} requests, {points} points for faults"
    ));
    Ok(reference)
}

fn tell_divergence(reference: &Reference) {
    if reference.alike < 1.0 {
        let part = reference.alike * 100.0;
        let first = reference.divergence.as_deref().unwrap_or_default();
        notify(&format!(
            "plumbline: {part:.0} % of the requests are the same in all runs without faults; the first difference: {first}"
        ));
    }
}

/// Explores all scenarios and writes the report.
fn explored(
    command: &str,
    args: &ExploreArgs,
    subjects: &[ScenarioSubject],
    launcher: &Launcher,
    options: &ProgramOptions,
) -> Result<Exit, CliError> {
    let mut report = ProgramReport {
        api_version: "plumbline/v1",
        kind: "ProgramExploreReport",
        program: subjects.first().map(|subject| subject.program.name.clone()).unwrap_or_default(),
        command: command.to_owned(),
        flags: args.program.flags(command),
        scenarios: Vec::new(),
    };
    let mut failed = None;
    let stopwatch = Stopwatch::start();
    // Scenarios, and beginnings of them with the plans to try.
    let mut all: VecDeque<ToExplore> = subjects.iter().map(|subject| (subject.clone(), None)).collect();
    while let Some((subject, given)) = all.pop_front() {
        let subject = &subject;
        let budget = args.budget.map(|budget| budget.saturating_sub(stopwatch.elapsed()));
        let file = subject.scenario.file.display().to_string();
        if let Some(why) = reason_to_end(budget, options.fail_fast && report.has_findings()) {
            if given.is_some() {
                continue;
            }
            report.scenarios.push(ScenarioReport::left_out(&subject.fixture.id, &file, why));
            continue;
        }
        let reference = match watched_reference(subject, launcher, options) {
            Ok(reference) => reference,
            Err(_) if given.is_some() => continue,
            Err(why) => {
                report.scenarios.push(unexplored(subject, &file, &why));
                continue;
            }
        };
        tell_divergence(&reference);
        let has_kubelet = subject.program.around.iter().any(|flag| matches!(&**flag, "--like" | "--kubelet"));
        let remarks = reference.remarks(has_kubelet);
        // The runs without faults count.
        let left = args.budget.map(|budget| budget.saturating_sub(stopwatch.elapsed()));
        let options = &ProgramOptions { budget: left, ..options.clone() };
        let mut next = explore::PROGRESS;
        let watched = io::stderr().is_terminal();
        let explored = search::explore((subject, given.as_deref()), reference, launcher, options, |progress| {
            if progress.wall >= next && (watched || progress.wall >= next + explore::PROGRESS * 5) {
                notify(&explore::line(progress, args.budget));
                next = progress.wall + explore::PROGRESS;
            }
        });
        if given.is_none() {
            beginnings(subject, &explored).into_iter().rev().for_each(|beginning| all.push_front(beginning));
        } else if explored.findings.is_empty() {
            continue;
        }
        let fixtures = if args.no_shrink { BTreeMap::new() } else { shrunk(subject, &explored, launcher, options) };
        if let Some(folder) = &args.keep {
            keep(folder, &explored, &fixtures)?;
        }
        if let Some((why, count)) = explored.failed.as_ref().filter(|(_, count)| *count == explored.tried as u64) {
            failed = Some(format!("all {count} runs with faults failed: {why}"));
        }
        report.scenarios.push(ScenarioReport { remarks, ..ScenarioReport::new(&explored, &file, &fixtures) });
    }
    write(args, &report)?;
    exit(&report, failed)
}

/// Returns the report of a scenario whose run without faults failed. A signal ends the program as well, which says
/// nothing about it.
fn unexplored(subject: &ScenarioSubject, file: &str, why: &ReferenceError) -> ScenarioReport {
    let id = &subject.fixture.id;
    match signals::requested() {
        Some(_) => ScenarioReport::left_out(id, file, reason_to_end(None, false).unwrap_or_default()),
        None => ScenarioReport::refused(id, file, why.to_string()),
    }
}

/// Returns the reason for which no other scenario is explored. `budget` is the time that is left.
fn reason_to_end(budget: Option<Duration>, found: bool) -> Option<String> {
    if let Some(signal) = signals::requested() {
        Some(format!("interrupted by {signal}"))
    } else if found {
        Some("a scenario before it has a finding (--fail-fast)".to_owned())
    } else {
        budget.filter(Duration::is_zero).map(|_| "the budget is spent; raise --budget".to_owned())
    }
}

fn write(args: &ExploreArgs, report: &ProgramReport) -> Result<(), CliError> {
    let mut out = output_file::create(args.output.as_deref())?;
    match args.format {
        ExploreFormat::Human => report.write_text(out)?,
        ExploreFormat::Json => report.write_json(out)?,
        ExploreFormat::Junit => report.write_junit(out)?,
        ExploreFormat::Html => {
            out.write_all(page(report).as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Returns the exit code of a report.
fn exit(report: &ProgramReport, failed: Option<String>) -> Result<Exit, CliError> {
    if report.has_findings() {
        return Ok(Exit::FixturesFailed);
    }
    if let Some(signal) = signals::requested() {
        notify(&format!("plumbline: interrupted by {signal}; the report covers the runs before it"));
        return Ok(Exit::Environment);
    }
    if let Some(why) = failed {
        return Err(CliError::Environment(why));
    }
    let scenarios = &report.scenarios;
    Ok(if scenarios.iter().any(|scenario| scenario.refused.is_some()) {
        Exit::Refuted
    } else if scenarios.iter().any(|scenario| scenario.too_few().is_some()) {
        Exit::Inconclusive
    } else {
        Exit::Ok
    })
}

/// Shrinks the findings. Returns the scenarios by fingerprint.
fn shrunk(
    subject: &ScenarioSubject,
    explored: &Explored,
    launcher: &Launcher,
    options: &ProgramOptions,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let stopwatch = Stopwatch::start();
    // Two runs without faults are enough for a candidate.
    let options = ProgramOptions { references: 2, ..options.clone() };
    for (number, (plan, breach)) in explored.findings.simplest().enumerate() {
        let name = breach.fingerprint();
        let of = explored.findings.len();
        if stopwatch.elapsed() > SHRINKING {
            notify(&format!("plumbline: {} of {of} findings are not shrunk: time is over", of - number));
            break;
        }
        notify(&format!("plumbline: shrinking finding {} of {of}: {name}", number + 1));
        let Some(example) = explored.examples.get(&name).filter(|example| !example.plan.is_empty()) else { continue };
        let token = plan.token();
        if let Some(text) = shrink(subject, (launcher, &options), &example.plan, &token, (&name, &breach.text)) {
            all.insert(name, text);
        }
    }
    all
}

/// Writes the shrunk findings as scenarios.
fn keep(folder: &Path, explored: &Explored, fixtures: &BTreeMap<String, String>) -> Result<(), CliError> {
    let scenarios = explored.findings.list().into_iter().filter_map(|finding| {
        let text = fixtures.get(&finding.fingerprint)?;
        Some((format!("{}.yaml", finding.file_name()), text))
    });
    output_file::write_all(explore::KEEP, folder, scenarios)
}

/// Runs one plan and shows it.
fn replay(
    token: &Token,
    subjects: &[ScenarioSubject],
    launcher: &Launcher,
    options: &ProgramOptions,
) -> Result<Exit, CliError> {
    let known: BTreeSet<&str> = subjects.iter().map(|subject| &*subject.fixture.id).collect();
    let (whole, steps) = match token.fixture.rsplit_once(BEGINNING) {
        Some((whole, steps)) => (whole, steps.parse().ok()),
        None => (&*token.fixture, None),
    };
    let found = subjects.iter().find(|subject| subject.fixture.id == whole);
    let found = found.and_then(|subject| match steps {
        Some(steps) => subject.beginning(steps).ok(),
        None => Some(subject.clone()),
    });
    let Some(subject) = &found else {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(CliError::Nothing(format!("there is no scenario {}; --scenario names {known}", token.fixture)));
    };
    let reference =
        search::reference(subject, launcher, options).map_err(|error| CliError::Refuted(error.to_string()))?;
    let plan = search::resolve(&reference, token).map_err(|UnknownPoint(missing)| {
        let points = reference.points();
        let some: Vec<String> = points.iter().take(40).map(|point| point.point().to_string()).collect();
        let more = points.len().saturating_sub(some.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        CliError::Usage(format!("{} has no point {missing}; it has {}{more}", token.fixture, some.join(", ")))
    })?;
    let (facts, breaches) = if plan.is_empty() && !subject.has_own_faults() {
        (reference.facts.clone(), oracles::judge_alone(&reference.facts))
    } else {
        let facts = search::run(subject, launcher, &plan, Some(&reference));
        let mut breaches = oracles::judge(&reference, &facts);
        let mut delayed = Delayed::new(subject, launcher);
        breaches.retain(|breach| delayed.confirms(&reference, &plan, (breach, &facts)));
        (facts, breaches)
    };
    show(token, &facts, &breaches)?;
    Ok(if breaches.is_empty() { Exit::Ok } else { Exit::FixturesFailed })
}

fn show(token: &Token, facts: &Facts, breaches: &[plumbline::explore::breach::Breach]) -> io::Result<()> {
    let mut out = super::streams::stdout();
    writeln!(out, "{token}\n\n{}", facts.transcript)?;
    for fault in &facts.idle_faults {
        writeln!(out, "no request met the fault of {fault}")?;
    }
    for breach in breaches {
        writeln!(out, "✗ {}\n    {}", breach.fingerprint(), breach.text)?;
    }
    if breaches.is_empty() {
        writeln!(out, "no breach")?;
    }
    out.flush()
}
