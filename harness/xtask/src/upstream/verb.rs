//! `xtask upstream`: runs Kubernetes' own end-to-end tests against `plumbline serve`.

use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use plumbline_suite::cli::{CliError, notify, stdout};
use plumbline_suite::duration::parse_duration;
use plumbline_suite::exit::Exit;
use plumbline_suite::process::signals;
use regex::Regex;

use super::error::UpstreamError;
use super::options::RunOptions;
use super::selection::{Difference, Rules};

/// Flags of `serve` with the real kube-controller-manager: all but its own loops. The images are those that the specs
/// expect not to exist.
const WITHOUT_LOOPS: &str = "--kubelet --nodes 3 --missing-images *:404,*:non-existent,*:nonexistent --loops none --disable-admission-plugins none";
/// Flags of `serve` with its own loops and controllers.
const WITH_LOOPS: &str = "--like kind --nodes 3 --missing-images *:404,*:non-existent,*:nonexistent";

/// Flags of `upstream`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpstreamArgs {
    /// The test program of a Kubernetes release, from its archive kubernetes-test-linux-amd64.tar.gz
    #[arg(long, value_name = "PATH")]
    e2e_test: PathBuf,

    /// The kubectl that specs call [default: the one in the search path]
    #[arg(long, value_name = "PATH")]
    kubectl: Option<PathBuf>,

    /// Run the specs on this real cluster, too, and compare. They create and delete namespaces and definitions there
    #[arg(long, value_name = "KUBECONFIG")]
    beside: Option<PathBuf>,

    /// Start this kube-controller-manager beside the server, instead of the server's own loops and controllers
    #[arg(long, value_name = "PATH")]
    controller_manager: Option<PathBuf>,

    /// Flags of `plumbline serve` [default: --like kind --nodes 3 --missing-images *:404,*:non-existent,*:nonexistent;
    /// with --controller-manager: the same images, --kubelet --nodes 3 --loops none --disable-admission-plugins none]
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    serve: Option<String>,

    /// Run only specs with texts that match this regular expression
    #[arg(long, value_name = "REGEX")]
    focus: Option<Regex>,

    /// List the selected specs with their time limits instead of running them
    #[arg(long)]
    list: bool,

    /// Number of specs that run in parallel
    #[arg(long, short, value_name = "N", default_value = "6")]
    jobs: NonZero<usize>,

    /// Time limit of a spec, unless its own is longer
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "90s")]
    limit: Duration,

    /// Folder for the logs of the server and of each spec
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// Format of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,

    /// Further flags of the test program
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Formats of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// A table, and each difference
    #[default]
    Human,
    /// One JSON document
    Json,
}

impl From<UpstreamError> for CliError {
    fn from(error: UpstreamError) -> Self {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        match error {
            UpstreamError::Nothing(_) => Self::Nothing(text),
            _ => Self::Environment(text),
        }
    }
}

impl UpstreamArgs {
    fn options(&self) -> Result<RunOptions, CliError> {
        let default = if self.controller_manager.is_some() { WITHOUT_LOOPS } else { WITH_LOOPS };
        let serve = self.serve.as_deref().unwrap_or(default);
        let serve = shell_words::split(serve).map_err(|error| CliError::Usage(format!("--serve: {error}")))?;
        Ok(RunOptions {
            e2e_test: absolute(&self.e2e_test)?,
            kubectl: self.kubectl.as_deref().map(absolute).transpose()?,
            beside: self.beside.as_deref().map(absolute).transpose()?,
            controller_manager: self.controller_manager.as_deref().map(absolute).transpose()?,
            serve,
            flags: self.flags.clone(),
            jobs: self.jobs.get(),
            limit: self.limit,
            logs: self.logs.clone(),
            rules: Rules::carried()?.focused(self.focus.clone()),
            known: Difference::carried(self.controller_manager.is_some())?,
        })
    }
}

/// Returns the absolute path of an existing file: the test program changes its folder.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

/// Runs the verb.
pub(crate) fn main(args: &UpstreamArgs) -> Result<Exit, CliError> {
    let options = args.options()?;
    signals::install();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Environment(format!("unable to start the runtime: {error}")))?;
    if args.list {
        let (version, selected) = runtime.block_on(super::run::list(&options))?;
        notify(&format!("{} specs of e2e.test {version}", selected.len()));
        let mut out = stdout();
        for selected in selected {
            writeln!(out, "{:>5} s  {}", selected.limit.as_secs(), selected.spec.text)?;
        }
        return Ok(Exit::Ok);
    }
    let report = runtime.block_on(super::run::run(&options, &|line| notify(line)))?;
    let mut out = stdout();
    match args.format {
        ReportFormat::Human => report.write(&mut out)?,
        ReportFormat::Json => {
            let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
            writeln!(out, "{text}")?;
        }
    }
    Ok(if report.has_new_differences() { Exit::Differ } else { Exit::Ok })
}
