//! `plumbline-loadtest scale`: benchmarks of controllers in a large cluster.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use plumbline::fixture::Controller;
use plumbline_suite::cli::read_report;
use plumbline_suite::cli::{CliError, notify};
use plumbline_suite::cli::{ClusterKind, RealClusterArgs, controller, variable};
use plumbline_suite::duration::parse_duration;
use plumbline_suite::exit::Exit;
use plumbline_suite::process::tempdir::RunDir;
use plumbline_suite::subject::command;

use super::program::PROGRAM;
use crate::scale::{
    self, ClusterChoice, ClusterShape, ProgressEvent, ProgressSink, ScaleError, ScaleOptions, ScaleReport, Scenario,
    subject::MeasuredCommand,
};

/// Our own controllers, the default subject.
const OURS: &str = "plumbline-controllers";
/// Without leader election, port or rate limit.
const OUR_FLAGS: [&str; 3] = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=0"];

/// Flags of `scale`.
#[derive(Debug, clap::Args)]
pub(super) struct ScaleArgs {
    /// Number of nodes
    #[arg(long, value_name = "COUNT", default_value_t = ClusterShape::default().nodes, value_parser = count)]
    nodes: usize,
    /// Number of pods, all ready, spread over replica sets and nodes
    #[arg(long, value_name = "COUNT", default_value_t = ClusterShape::default().pods, value_parser = count)]
    pods: usize,
    /// Number of replica sets, each with a budget of `maxUnavailable: 10%`
    #[arg(long, value_name = "COUNT", default_value_t = ClusterShape::default().budgets, value_parser = count)]
    budgets: usize,
    /// Number of namespaces
    #[arg(long, value_name = "COUNT", default_value_t = ClusterShape::default().namespaces, value_parser = count)]
    namespaces: usize,
    /// Percentage of nodes or replica sets that a scenario affects; drain uses a tenth of it
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=40))]
    share: u8,

    /// Scenarios to run, in this order on one cluster; `start` always comes first
    #[arg(long, value_name = "SCENARIOS", value_enum, value_delimiter = ',', default_value = "start")]
    scenario: Vec<Scenario>,
    /// Also measure the cost of a budget's sync in one namespace with 1,000, 10,000 and 50,000 pods
    #[arg(long)]
    curve: bool,
    /// Measure only the curve
    #[arg(long, conflicts_with = "scenario")]
    curve_only: bool,
    /// Time limit of a scenario
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "15m")]
    limit: Duration,
    /// Connections of the load
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = count)]
    connections: usize,

    /// Also measure clusters of these percentages of the size, for curves over the size
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', conflicts_with = "curve_only",
        value_parser = clap::value_parser!(u8).range(1..=99))]
    sizes: Vec<u8>,

    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: ScaleFormat,
    /// Report (JSON) of other subjects or sizes to draw beside this one; may be repeated
    #[arg(long, value_name = "REPORT")]
    beside: Vec<PathBuf>,
    /// Exit with 100 if a target is missed
    #[arg(long)]
    enforce: bool,
    /// Folder for logs [default: a temporary folder, removed at the end unless something fails]
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Subject")]
    subject: SubjectArgs,

    #[command(flatten, next_help_heading = "Cluster")]
    cluster: ClusterArgs,
}

#[derive(Debug, clap::Args)]
struct SubjectArgs {
    /// Command line of the subject, quoted as for a shell. `{kubeconfig}`, `{port}` and `{controllers}` are replaced;
    /// without any of them the command is treated as a drop-in for kube-controller-manager and its flags are appended
    /// [default: plumbline-controllers in the folder of this program, with --leader-elect=false --secure-port=0
    /// --kube-api-qps=0]
    #[arg(long, value_name = "COMMAND", alias = "subject")]
    command: Option<String>,
    /// Command line of a second subject, measured after the first on a fresh cluster of the same kind
    #[arg(long, value_name = "COMMAND")]
    vs: Option<String>,
    /// Environment variable for the commands; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    command_env: Vec<(String, String)>,
    /// Name of the subject in the report [default: the program's name]
    #[arg(long, value_name = "NAME")]
    subject_name: Option<String>,
    /// Name of the second subject in the report [default: the program's name]
    #[arg(long, value_name = "NAME", requires = "vs")]
    vs_name: Option<String>,
    /// Controllers to start
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = controller,
        default_value = "disruption,podgc,taint-eviction,ttl")]
    subject_controllers: Vec<Controller>,
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// Cluster to use; the fake server runs over HTTPS in a separate process
    #[arg(long, value_enum, default_value_t = ClusterKind::Fake)]
    cluster: ClusterKind,

    #[command(flatten)]
    real: RealClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScaleFormat {
    /// A table
    Text,
    /// One JSON document
    Json,
    /// One HTML page with curves
    Html,
}

/// Parses a positive count.
fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=1_000_000).contains(count)).ok_or_else(|| "expected 1 to 1000000".to_owned())
}

/// Runs the verb.
pub(super) fn main(args: &ScaleArgs) -> Result<Exit, CliError> {
    let environment =
        |what: &str, error: &dyn std::fmt::Display| CliError::Environment(format!("unable to {what}: {error}"));
    let beside = beside(args)?;
    let scratch = RunDir::create(args.logs.as_deref());
    let mut scratch = scratch.map_err(|error| CliError::Environment(error.to_string()))?;
    let options = options(args, scratch.logs())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| environment("start the runtime", &error))?;
    let progress = Progress::new();
    let report = runtime.block_on(measure(&options, &args.sizes, &|event| progress.tell(event)));
    progress.end();
    // The logs explain failures.
    let mut logs = || scratch.keep_logs().unwrap_or_else(|| scratch.logs().to_owned()).display().to_string();
    let report = match report {
        Ok(report) => report,
        Err(ScaleError::Usage(why)) => return Err(CliError::Usage(why)),
        Err(error) => return Err(CliError::Environment(format!("{error}\n  logs: {}", logs()))),
    };
    print(&report, &beside, args.format)?;
    let all = || [&report].into_iter().chain(&report.sizes);
    let unfinished: Vec<String> = all()
        .flat_map(ScaleReport::unfinished)
        .map(|(subject, measured)| {
            let left = measured.left.as_deref().unwrap_or_default();
            format!("{PROGRAM}: {}, {}: did not finish: {left}", subject.name, measured.scenario.as_str())
        })
        .collect();
    let mut failed = !unfinished.is_empty();
    if failed {
        notify(&format!("{}\n  logs: {}", unfinished.join("\n"), logs()));
    }
    for missed in report.missed() {
        let scenario = missed.scenario.as_str();
        let measure = missed.measure;
        notify(&format!("{PROGRAM}: target missed: {scenario}, {measure:?}: {:.3}", missed.ratio));
        failed |= args.enforce;
    }
    Ok(if failed { Exit::FixturesFailed } else { Exit::Ok })
}

/// Measures the cluster, then those of other sizes.
async fn measure(options: &ScaleOptions, percents: &[u8], say: ProgressSink<'_>) -> Result<ScaleReport, ScaleError> {
    let mut report = scale::run(options, say).await?;
    for percent in percents {
        let shape = options.shape.percent((*percent).into());
        let logs = options.logs.join(format!("size-{percent}"));
        say(ProgressEvent::Phase(format!("{percent} % of the size: {} pods", shape.pods)));
        report.sizes.push(scale::run(&ScaleOptions { shape, logs, curve: false, ..options.clone() }, say).await?);
    }
    Ok(report)
}

/// Reads the reports to draw beside the new one.
fn beside(args: &ScaleArgs) -> Result<Vec<ScaleReport>, CliError> {
    if args.format != ScaleFormat::Html && !args.beside.is_empty() {
        return Err(CliError::Usage("--beside requires --format html".to_owned()));
    }
    args.beside.iter().map(|path| read_report("--beside", path, scale::report::KIND)).collect()
}

fn options(args: &ScaleArgs, logs: &Path) -> Result<ScaleOptions, CliError> {
    let ScaleArgs { nodes, pods, budgets, namespaces, share, .. } = *args;
    let share = usize::from(share);
    if pods < budgets {
        return Err(CliError::Usage("--pods: every replica set needs at least one".to_owned()));
    }
    let mut subjects = vec![command(args.subject.command.as_deref(), args.subject.subject_name.clone(), args)?];
    if let Some(vs) = &args.subject.vs {
        subjects.push(command(Some(vs), args.subject.vs_name.clone(), args)?);
    }
    let cluster = &args.cluster;
    let several = args.subject.vs.is_some() || args.curve || args.curve_only || !args.sizes.is_empty();
    if cluster.cluster == ClusterKind::Kubeconfig && several {
        let why = "--vs, --curve and --sizes need a fresh cluster each time: choose another --cluster than kubeconfig";
        return Err(CliError::Usage(why.to_owned()));
    }
    let cluster = cluster.real.of(cluster.cluster).map_or(ClusterChoice::Fake, ClusterChoice::Real);
    let mut scenarios = args.scenario.clone();
    scenarios.dedup();
    Ok(ScaleOptions {
        shape: ClusterShape { nodes, pods, budgets, namespaces, share },
        scenarios: if args.curve_only { Vec::new() } else { scenarios },
        curve: args.curve || args.curve_only,
        cluster,
        subjects,
        controllers: args.subject.subject_controllers.clone(),
        connections: args.connections,
        limit: args.limit,
        logs: logs.to_owned(),
    })
}

/// Returns the subject of a command line, or our own controllers.
fn command(line: Option<&str>, name: Option<String>, args: &ScaleArgs) -> Result<MeasuredCommand, CliError> {
    let argv = match line {
        Some(line) => shell_words::split(line).map_err(|error| CliError::Usage(format!("{line:?}: {error}")))?,
        None => ours()?,
    };
    let program = argv.first().ok_or_else(|| CliError::Usage("the command line is empty".to_owned()))?;
    let usual = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(MeasuredCommand(command::Command {
        name: name.or(usual).unwrap_or_else(|| program.clone()),
        env: args.subject.command_env.clone(),
        argv,
        ..command::Command::default()
    }))
}

/// Returns our controllers in the folder of this program.
fn ours() -> Result<Vec<String>, CliError> {
    let program = std::env::current_exe().ok().map(|program| program.with_file_name(OURS));
    let Some(program) = program.filter(|program| program.is_file()) else {
        let next = "build it (cargo build --release -p plumbline-controllers), or choose another one with --command";
        return Err(CliError::Environment(format!("{OURS} is not in the folder of this program: {next}")));
    };
    let mut argv = vec![program.to_string_lossy().into_owned()];
    argv.extend(OUR_FLAGS.map(str::to_owned));
    Ok(argv)
}

fn print(report: &ScaleReport, beside: &[ScaleReport], format: ScaleFormat) -> io::Result<()> {
    let mut out = plumbline_suite::cli::stdout();
    match format {
        ScaleFormat::Text => report.table(&mut out)?,
        ScaleFormat::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        ScaleFormat::Html => out.write_all(scale::page::page(report, beside).as_bytes())?,
    }
    out.flush()
}

/// Prints phases as lines and, on a terminal, progress in a status line below them.
struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new() -> Self {
        let on = io::stderr().is_terminal();
        Self { bar: on.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4))) }
    }

    fn tell(&self, event: ProgressEvent) {
        match (&self.bar, event) {
            (Some(bar), ProgressEvent::Phase(text)) => bar.println(text),
            (Some(bar), ProgressEvent::Progress(text)) => bar.set_message(text),
            (None, ProgressEvent::Phase(text)) => notify(&text),
            (None, ProgressEvent::Progress(_)) => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use rstest::rstest;

    #[derive(clap::Parser)]
    struct TestArgs {
        #[command(flatten)]
        args: ScaleArgs,
    }

    fn parsed(words: &[&str]) -> Result<ScaleOptions, String> {
        let line = std::iter::once(&"scale").chain(words);
        let line = TestArgs::try_parse_from(line).map_err(|error| error.to_string())?;
        options(&line.args, Path::new("/logs")).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn the_issues_numbers_are_the_usual_ones() {
        let options = parsed(&["--command", "kcm --a='b c'"]).unwrap();
        assert_eq!(
            options.shape,
            ClusterShape { nodes: 5_000, pods: 150_000, budgets: 3_000, namespaces: 10, share: 10 }
        );
        assert_eq!((options.scenarios, options.curve), (vec![Scenario::Start], false));
        assert_eq!((options.subjects[0].name(), options.subjects[0].0.argv.len()), ("kcm", 2));
        assert_eq!(options.controllers, Controller::ALL);
    }

    #[test]
    fn two_subjects_have_names() {
        let words = ["--subject", "/a/one", "--vs", "/b/two -x", "--vs-name", "upstream", "--curve-only"];
        let options = parsed(&words).unwrap();
        let names: Vec<_> = options.subjects.iter().map(MeasuredCommand::name).collect();
        assert_eq!(names, ["one", "upstream"]);
        assert_eq!((options.scenarios, options.curve), (vec![], true));
    }

    #[rstest]
    #[case(&["--nodes", "0"], "1 to 1000000")]
    #[case(&["--pods", "2", "--budgets", "3"], "every replica set")]
    #[case(&["--share", "41"], "41 is not in 1..=40")]
    #[case(&["--scenario", "flood"], "taint-storm")]
    #[case(&["--command", "'"], "missing closing quote")]
    #[case(&["--command", " "], "empty")]
    #[case(&["--command", "a", "--vs-name", "b"], "--vs")]
    #[case(&["--cluster", "kubeconfig", "--curve"], "a fresh cluster")]
    #[case(&["--cluster", "kubeconfig", "--sizes", "10"], "a fresh cluster")]
    #[case(&["--sizes", "100"], "100 is not in 1..=99")]
    fn nonsense_is_refused(#[case] words: &[&str], #[case] expected: &str) {
        let mut all = vec!["--command", "a"];
        if words.contains(&"--command") {
            all.clear();
        }
        all.extend(words);
        let error = parsed(&all).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
