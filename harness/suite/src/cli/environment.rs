//! Flags for the cluster and the subject, shared by `run`, `conform` and `compare`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser as _, ValueEnum};
use plumbline::fixture::{Controller, Fixture, Release};
use plumbline_apiserver::KubernetesVersion;
use regex::Regex;

use super::error::CliError;
use super::guests::{self, FixturesApart};
use super::help::COMMON_HEADING;
use super::streams::{notify, notify_all};
use super::value::ValueError;
use crate::cluster::provision::{RealCluster, envtest, k3s, kind, kubeconfig};
use crate::cluster::{Cluster, ClusterTime, EmbeddedCluster, RemoteCluster, Role, ServedCluster};
use crate::conformance::implementation;
use crate::duration::parse_duration;
use crate::guest::{self, ProgramTime};
use crate::load::capacity::{self, Machine};
use crate::load::{self, StartCost};
use crate::process::signals;
use crate::process::tempdir::RunDir;
use crate::runner::guests::FixtureGuestError;
use crate::runner::suite::{self, RunOptions, StartUp, TestBed};
use crate::subject::command::{Command, misspelt_placeholder};
use crate::subject::external::External;
use crate::subject::in_process::InProcess;
use crate::subject::none::NoSubject;
use crate::subject::{BystanderWrites, Subject};

/// Flags for the cluster and the subject.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = COMMON_HEADING)]
pub(super) struct EnvironmentArgs {
    /// Cluster that fixtures run on
    #[arg(long, value_enum, default_value_t = ClusterKind::Fake)]
    cluster: ClusterKind,

    /// Kubernetes release to judge by, and that the fake API server behaves as: 1.36 or 1.37 [default: 1.36; a real
    /// cluster's own]
    #[arg(long, value_name = "RELEASE")]
    kubernetes_version: Option<KubernetesVersion>,

    /// Implementation under test: in-process (our controllers), command (the program of --command), external (runs
    /// already, in a real cluster) or none (for fixtures about the API server alone) [default: command with --command,
    /// else in-process; `conform` needs one that is named]
    #[arg(long, value_enum)]
    subject: Option<SubjectKind>,

    /// Command line of the subject, quoted as for a shell. `{kubeconfig}`, `{server}`, `{token}`, `{token-file}`,
    /// `{ca-file}`, `{port}`, `{controllers}` and `{flags}` are replaced; without any of them the command is treated as
    /// a drop-in for kube-controller-manager and its flags are appended
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,

    /// YAML file with the roles and bindings of the subject's service accounts (such as controllers/deploy/rbac.yaml).
    /// The fake server rejects requests that they do not permit
    #[arg(long, value_name = "FILE")]
    subject_role: Option<PathBuf>,

    #[command(flatten)]
    about: CommandArgs,

    /// Folder for logs [default: a temporary folder, removed at the end unless something fails]
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// Run in-process controllers over HTTPS and in wall time too
    #[arg(long)]
    wall_clock: bool,

    /// In wall time: minimum tolerance for late events, even if a fixture sets less. Not with `conform`
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "0s")]
    tolerance: Duration,

    /// Time of a --command on the fake API server: virtual, so that waiting costs nothing and times are exact, or that
    /// of the machine [default: virtual where programs can be traced: Linux on x86-64]. With --cluster envtest, etcd
    /// and kube-apiserver live in virtual time too if it is named
    #[arg(long, value_enum, value_name = "TIME", conflicts_with = "wall_clock")]
    time: Option<ProgramTime>,

    /// Seed of what is drawn for a --command in each fixture: names and uids of objects, and on the fake API server
    /// also decoys and the moment of the start [default: another one in each run; the report has it]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Most real time for each fixture in virtual time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    fixture_limit: Duration,

    /// Plain HTTP instead of HTTPS for a command on the fake server
    #[arg(long)]
    http: bool,

    /// In wall time: retries of a failed fixture; one that passes on a retry is reported as flaky
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u8,

    /// Number of fixtures that run in parallel [default: one per core; in wall time, where fixtures mostly wait, up to
    /// 96, and up to 16 on a real API server: fewer if starting the command takes much processor time or memory]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    #[command(flatten)]
    real: RealClusterArgs,
}

/// Flags for a command, or for controllers that already run in the cluster.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = COMMON_HEADING)]
pub(super) struct CommandArgs {
    /// Environment variable for the command; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    command_env: Vec<(String, String)>,

    /// Name of the subject in reports [default: the program's name, or `external`]
    #[arg(long, value_name = "NAME")]
    subject_name: Option<String>,

    /// Controllers that the subject implements [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = controller)]
    subject_controllers: Vec<Controller>,

    /// Regular expression over the user agents of CONTROLLER, if they do not end in its name. With one controller under
    /// test none is needed. May be repeated
    #[arg(long, value_name = "CONTROLLER=REGEX", value_parser = agent)]
    agent: Vec<(Controller, Regex)>,

    /// Treatment of writes by clients of the subject that are none of the controllers under test, to resources that no
    /// fixture judges. Such writes to pods, nodes, budgets and Events always fail a fixture
    #[arg(long, value_name = "WORD", value_enum, default_value_t = BystanderWrites::Report)]
    bystander_writes: BystanderWrites,

    /// Also add NAME to `{controllers}` if CONTROLLER is tested, because it depends on NAME. May be repeated
    #[arg(long, value_name = "CONTROLLER=NAME", value_parser = companion)]
    companion: Vec<(Controller, String)>,

    /// Features of level `extended` that the subject declares; globs such as `podgc.*`
    #[arg(long, value_name = "FEATURES", value_delimiter = ',', value_parser = feature)]
    features: Vec<String>,

    /// The command is ready when this URL returns 200, such as `http://127.0.0.1:{port}/readyz`
    #[arg(long, value_name = "URL")]
    ready_url: Option<String>,

    /// The command is ready when a line of its output matches this regular expression
    #[arg(long, value_name = "REGEX")]
    ready_log: Option<Regex>,

    /// Time limit for the command to become ready
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    ready_timeout: Duration,

    /// URL of the command's metrics, such as `http://127.0.0.1:{port}/metrics`
    #[arg(long, value_name = "URL")]
    metrics_url: Option<String>,
}

impl CommandArgs {
    /// Parses flags from a text, quoted as for a shell.
    ///
    /// # Errors
    ///
    /// Returns an error if the text contains anything else.
    pub(super) fn read(text: &str) -> Result<Self, CliError> {
        #[derive(clap::Parser)]
        #[command(no_binary_name = true, disable_help_flag = true)]
        struct FlagLine {
            #[command(flatten)]
            about: CommandArgs,
        }
        let wrong = |error: &dyn std::fmt::Display| CliError::Usage(format!("flags of one subject, `{text}`: {error}"));
        let words = shell_words::split(text).map_err(|error| wrong(&error))?;
        FlagLine::try_parse_from(words).map(|line| line.about).map_err(|error| wrong(&error))
    }

    /// Returns the defaults.
    fn nothing() -> Result<Self, CliError> {
        Self::read("")
    }
}

/// Flags for real API servers, each kind under its own heading.
#[derive(Clone, Debug, clap::Args)]
pub struct RealClusterArgs {
    #[command(flatten, next_help_heading = "Cluster envtest")]
    envtest: envtest::EnvtestOptions,

    #[command(flatten, next_help_heading = "Cluster k3s")]
    k3s: k3s::K3sOptions,

    #[command(flatten, next_help_heading = "Cluster kind")]
    kind: kind::KindOptions,

    #[command(flatten, next_help_heading = "Cluster kubeconfig")]
    found: kubeconfig::ExistingClusterOptions,
}

impl RealClusterArgs {
    /// Returns the real API server of this kind; `None` for the fake one.
    pub fn of(&self, kind: ClusterKind) -> Option<RealCluster> {
        match kind {
            ClusterKind::Fake => None,
            ClusterKind::Envtest => Some(RealCluster::Envtest(self.envtest.clone())),
            ClusterKind::K3s => Some(RealCluster::K3s(self.k3s.clone())),
            ClusterKind::Kind => Some(RealCluster::Kind(self.kind.clone())),
            ClusterKind::Kubeconfig => Some(RealCluster::Kubeconfig(self.found.clone())),
        }
    }
}

/// Kinds of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusterKind {
    /// The embedded API server, in virtual time where the subject can run in it, over HTTPS on the wall clock otherwise
    Fake,
    /// etcd and kube-apiserver as processes
    Envtest,
    /// k3s in a container
    K3s,
    /// A cluster created with the kind CLI
    Kind,
    /// An existing cluster
    Kubeconfig,
}

/// Kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SubjectKind {
    /// Our own controllers, in this process
    InProcess,
    /// The program of --command
    Command,
    /// Controllers that already run in a real cluster
    External,
    /// None: fixtures about the API server alone
    None,
}

/// Default number of parallel fixtures in wall time.
const WALL_JOBS: usize = 96;
/// The same on a real API server, which the fixtures share.
const REMOTE_JOBS: usize = 16;

/// A started cluster and subject, with the resources that must live as long as they do.
pub(super) struct Environment {
    pub(super) test_bed: TestBed,
    pub(super) options: RunOptions,
    scratch: RunDir,
}

impl Environment {
    /// Stops everything that was started.
    ///
    /// # Errors
    ///
    /// Returns [`CliError::Environment`] if the cluster broke or cannot be stopped cleanly.
    pub(super) fn close(mut self) -> Result<(), CliError> {
        let broken = self.test_bed.cluster.broken();
        let stopped = self.test_bed.cluster.stop();
        let lost = match &self.test_bed.guests {
            Some(guests) => {
                notify_all(&guests.close().map_err(CliError::environment)?);
                guests.lost()
            }
            None => Vec::new(),
        };
        if let Some(signal) = signals::requested() {
            let why = format!("interrupted by {signal}; everything that was started has been stopped");
            return Err(CliError::Environment(why));
        }
        if !lost.is_empty() {
            let why = format!("not run, because the process that runs fixtures failed:\n    {}", lost.join("\n    "));
            return Err(with_logs(CliError::Environment(why), &mut self.scratch));
        }
        if let Some(why) = broken {
            let why = format!("the cluster failed during the run; later results are invalid: {why}");
            return Err(with_logs(CliError::Environment(why), &mut self.scratch));
        }
        stopped.map_err(|error| with_logs(CliError::environment(error), &mut self.scratch))
    }

    /// Returns `flags` with the seed of the run, so that another run draws the same.
    pub(super) fn with_seed(&self, flags: &str) -> String {
        guests::with_seed(flags, self.test_bed.cluster.seed())
    }

    /// Returns the server logs if the cluster broke, without those of subjects.
    pub(super) fn logs_of_broken_cluster(&self) -> Vec<PathBuf> {
        let logs = std::fs::read_dir(self.scratch.logs()).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_subject =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("subject-"));
        let mut logs: Vec<PathBuf> = logs.filter(|path| path.is_file() && !is_subject(path)).collect();
        logs.sort();
        self.test_bed.cluster.broken().map_or_else(Vec::new, |_| logs)
    }
}

/// Keeps the logs after an environment failure and adds their folder to the error.
pub(super) fn with_logs(error: CliError, scratch: &mut RunDir) -> CliError {
    let CliError::Environment(why) = error else { return error };
    CliError::Environment(match scratch.keep_logs() {
        Some(folder) => format!("{why}\n  logs: {}", folder.display()),
        None => why,
    })
}

impl EnvironmentArgs {
    /// Parses the flags that an archive of evidence has. Flags that select fixtures are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the text contains anything else.
    pub(super) fn read(text: &str) -> Result<Self, CliError> {
        let wrong = |error: &dyn std::fmt::Display| CliError::Usage(format!("flags of the archive, `{text}`: {error}"));
        let words = shell_words::split(text).map_err(|error| wrong(&error))?;
        Self::of_words(words.into_iter().map(OsString::from)).map_err(|error| wrong(&error))
    }

    /// Parses flags, also those that select fixtures, which are ignored.
    pub(super) fn of_words(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        #[derive(clap::Parser)]
        #[command(no_binary_name = true, disable_help_flag = true)]
        struct FlagLine {
            #[command(flatten)]
            environment: EnvironmentArgs,
            #[command(flatten)]
            _folder: super::select::FixturesFolder,
        }
        FlagLine::try_parse_from(words).map(|line| line.environment)
    }

    /// Returns the command line of the subject.
    pub(super) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Returns true if cluster and subject are parts of this process.
    pub(super) fn starts_no_program(&self) -> bool {
        self.cluster == ClusterKind::Fake && self.command.is_none()
    }

    /// Returns the files of the subject: those that its command line names, or this program.
    pub(super) fn programs(&self) -> Vec<PathBuf> {
        let Some(command) = &self.command else { return std::env::current_exe().into_iter().collect() };
        let words = shell_words::split(command).unwrap_or_default();
        let found = |(index, word): (usize, &String)| {
            // A program without a folder is looked up; every other word may be a script or a file of its own.
            if index == 0 && !word.contains('/') {
                let paths = std::env::var_os("PATH")?;
                return std::env::split_paths(&paths).map(|folder| folder.join(word)).find(|path| path.is_file());
            }
            std::env::current_dir().ok().map(|here| here.join(word)).filter(|path| path.is_file())
        };
        words.iter().enumerate().filter_map(found).collect()
    }

    /// Returns the same environment with a subject that implements `controller` alone, unless flags name its
    /// controllers.
    pub(super) fn for_profile(&self, controller: Option<Controller>) -> Self {
        let mut environment = self.clone();
        if self.takes_controllers_from_profile() {
            environment.about.subject_controllers.extend(controller);
        }
        environment
    }

    /// Returns true if the controllers of the subject follow from the profile.
    pub(super) const fn takes_controllers_from_profile(&self) -> bool {
        self.about.subject_controllers.is_empty() && self.command.is_some()
    }

    /// Returns the same environment in the first release in which all of these fixtures hold, unless flags name the
    /// release or a real cluster.
    pub(super) fn in_release_of(&self, fixtures: &[Fixture]) -> Self {
        let mut environment = self.clone();
        if self.cluster == ClusterKind::Fake && self.kubernetes_version.is_none() {
            environment.kubernetes_version = EmbeddedCluster::release_for(fixtures);
        }
        environment
    }

    /// Returns `flags` with the release to judge by, unless they have one.
    pub(super) fn with_release(&self, flags: &str) -> String {
        match self.kubernetes_version {
            Some(release) if !flags.contains("--kubernetes-version") => {
                format!("{flags} --kubernetes-version {release}")
            }
            _ => flags.to_owned(),
        }
    }

    /// Returns the environment of a command on the fake API server, in virtual time where programs can be traced.
    ///
    /// # Errors
    ///
    /// Returns an error if the defaults cannot be read.
    pub(super) fn of_command(command: &str, about: CommandArgs) -> Result<Self, CliError> {
        Self::read("")?.with_subject(Some(command), Some(about))
    }

    /// Returns the same environment for another subject: a command line, or our own controllers, with flags `about` it.
    ///
    /// # Errors
    ///
    /// Returns an error if the flags already name a subject.
    pub(super) fn with_subject(&self, command: Option<&str>, about: Option<CommandArgs>) -> Result<Self, CliError> {
        if self.command.is_some() || self.subject.is_some() {
            return Err(CliError::Usage(
                "the subjects are given as arguments: remove --command and --subject".to_owned(),
            ));
        }
        let about = match (about, command) {
            (Some(about), _) => about,
            (None, Some(_)) => self.about.clone(),
            // The given flags are about the command, which is the other subject.
            (None, None) => CommandArgs::nothing()?,
        };
        Ok(Self { command: command.map(str::to_owned), about, ..self.clone() })
    }

    /// Returns true if the run takes place in virtual time inside a tracer, which this process has to start.
    pub(super) fn needs_guest(&self) -> bool {
        let time = match self.cluster {
            ClusterKind::Fake if self.command.is_some() && !self.wall_clock => {
                self.time.unwrap_or(ProgramTime::usual())
            }
            ClusterKind::Envtest => self.time.unwrap_or(ProgramTime::Wall),
            _ => ProgramTime::Wall,
        };
        time == ProgramTime::Virtual && !guest::is_inside()
    }

    /// Returns the kind of subject that the flags name; `None` if they name none.
    pub(super) fn named_subject(&self) -> Option<SubjectKind> {
        self.subject.or_else(|| self.command.as_ref().map(|_| SubjectKind::Command))
    }

    /// Returns the given flags that require a command.
    fn about_a_command(&self) -> Vec<&'static str> {
        let given = [
            ("--command-env", !self.about.command_env.is_empty()),
            ("--agent", !self.about.agent.is_empty()),
            ("--companion", !self.about.companion.is_empty()),
            ("--features", self.names_features() && self.subject != Some(SubjectKind::External)),
            ("--ready-url", self.about.ready_url.is_some()),
            ("--ready-log", self.about.ready_log.is_some()),
            ("--metrics-url", self.about.metrics_url.is_some()),
        ];
        given.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    /// Returns true if features are declared on the command line.
    pub(super) const fn names_features(&self) -> bool {
        !self.about.features.is_empty()
    }

    /// Returns the minimum tolerance for late events.
    pub(super) const fn tolerance(&self) -> Duration {
        self.tolerance
    }

    /// Returns true if fixtures run in processes of their own, each in a virtual time of its own.
    pub(super) fn runs_apart(&self) -> bool {
        self.cluster == ClusterKind::Fake && self.needs_guest()
    }

    /// Starts the cluster and the subject that the flags select; the fixtures of a program in virtual time run in
    /// processes of their own.
    ///
    /// # Errors
    ///
    /// Returns [`CliError::Environment`] if something is missing or does not start.
    pub(super) fn start_apart(&self, fail_fast: bool, apart: FixturesApart<'_>) -> Result<Environment, CliError> {
        let apart = Some(apart).filter(|_| self.runs_apart());
        signals::install();
        let scratch = RunDir::create(self.logs.as_deref());
        let mut scratch = scratch.map_err(CliError::environment)?;
        let started = self.test_bed(scratch.logs(), apart.is_some()).and_then(|mut test_bed| {
            let guests = apart.map(|apart| apart.guests(&scratch, test_bed.cluster.seed(), self.fixture_limit));
            test_bed.guests = guests.transpose()?;
            let start_up = self.check_start_up(&test_bed).inspect_err(|_| {
                // The account says if the subject was busy.
                if let Some(Ok(account)) = test_bed.guests.as_ref().map(|guests| guests.close()) {
                    notify_all(&account);
                }
            })?;
            Ok((test_bed, start_up))
        });
        let (test_bed, start_up) = started.map_err(|error| with_logs(error, &mut scratch))?;
        let cores = load::cores();
        let usual = match self.cluster {
            ClusterKind::Fake => match test_bed.cluster.time() {
                // In one time, programs wait for each other.
                ClusterTime::Traced if test_bed.guests.is_none() => 2 * cores,
                ClusterTime::Virtual | ClusterTime::Traced => cores,
                ClusterTime::Wall => WALL_JOBS,
            },
            _ => REMOTE_JOBS,
        };
        let options = RunOptions {
            jobs: self.jobs.map_or_else(|| default_jobs(usual, start_up.cost.as_ref()), usize::from),
            fail_fast,
            tolerance: self.tolerance,
            retries: self.retries,
            start_cost: start_up.cost,
            ..RunOptions::one_by_one()
        };
        Ok(Environment { test_bed, options, scratch })
    }

    /// Prepares the cluster and the subject for a process that runs single fixtures.
    ///
    /// # Errors
    ///
    /// Returns an error if something is missing.
    pub(super) fn prepare(&self) -> Result<(TestBed, RunOptions), CliError> {
        let logs = self.logs.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&logs).map_err(|error| {
            CliError::Environment(format!("unable to create the folder {}: {error}", logs.display()))
        })?;
        Ok((self.test_bed(&logs, false)?, RunOptions { tolerance: self.tolerance, ..RunOptions::one_by_one() }))
    }

    /// Starts the cluster and prepares the subject. `is_elsewhere`: the fixtures run in other processes.
    fn test_bed(&self, logs: &Path, is_elsewhere: bool) -> Result<TestBed, CliError> {
        let subject = self.subject(logs)?;
        let external = self.subject == Some(SubjectKind::External);
        if external && self.cluster == ClusterKind::Fake {
            let next = "--subject external requires a real cluster: choose another --cluster than fake";
            return Err(CliError::Usage(next.to_owned()));
        }
        if self.http && (self.cluster != ClusterKind::Fake || self.command.is_none()) {
            return Err(CliError::Usage("--http requires --cluster fake and --command".to_owned()));
        }
        let is_started_here = matches!(self.cluster, ClusterKind::Fake | ClusterKind::Envtest);
        if self.time == Some(ProgramTime::Virtual) && !is_started_here {
            let why = "--time virtual requires --cluster fake or envtest: other servers were not started by this \
                       program, and live in the time of their machine";
            return Err(CliError::Usage(why.to_owned()));
        }
        let role = self.role()?;
        let kubernetes = self.kubernetes_version.unwrap_or_default();
        let cluster: Arc<dyn Cluster> = match self.real.of(self.cluster) {
            None if subject.is_virtual() && !self.wall_clock => Arc::new(EmbeddedCluster { role, kubernetes }),
            None => {
                let (plain, seed) = (self.http, self.seed());
                Arc::new(ServedCluster { role, kubernetes, plain, is_elsewhere, seed, around: None })
            }
            Some(real) => self.remote(&real, logs, external)?,
        };
        Ok(TestBed::new(cluster, subject))
    }

    /// Starts a program once in an empty cluster; on a real server, in namespaces of its own.
    fn check_start_up(&self, test_bed: &TestBed) -> Result<StartUp, CliError> {
        let checked = match &test_bed.guests {
            Some(guests) => match guests.check_start_up() {
                Ok(unnamed_agents) => Ok(StartUp { unnamed_agents, cost: None }),
                Err(FixtureGuestError::Refused(why)) => Err(why),
                Err(error @ FixtureGuestError::TooLong { .. }) => Err(error.to_string()),
                Err(error) => return Err(CliError::environment(error)),
            },
            None if self.command.is_some() => suite::check_start_up(test_bed).map_err(|why| why.to_string()),
            None => Ok(StartUp::default()),
        };
        let why = match checked {
            Ok(start_up) => {
                start_up.unnamed_agents.iter().for_each(|agent| notify(&unnamed_agent(agent)));
                return Ok(start_up);
            }
            Err(why) => why,
        };
        let name = test_bed.subject.name();
        let mut message = match signals::requested() {
            Some(signal) => format!("interrupted by {signal} before the first fixture"),
            None => format!(
                "{name} does not start, so no fixture was run: {why}\n  next: {}",
                super::start::after_start(self.command(), &why)
            ),
        };
        if let Err(why) = test_bed.cluster.stop() {
            message = format!("{message}\n  the cluster could not be stopped: {why}");
        }
        Err(CliError::Environment(message))
    }

    /// Returns the seed of what is drawn: the given one, for a command also a new one. Our own controllers know nothing
    /// of the fixtures, so they get their names.
    fn seed(&self) -> Option<u64> {
        self.seed.or_else(|| self.command.as_ref().map(|_| fastrand::u32(..).into()))
    }

    /// Reads the role that restricts the subject on a fake server.
    fn role(&self) -> Result<Option<Role>, CliError> {
        match &self.subject_role {
            Some(_) if self.cluster != ClusterKind::Fake => {
                let next =
                    "--subject-role works with the fake server only: grant roles on a real cluster with RBAC objects";
                Err(CliError::Usage(next.to_owned()))
            }
            Some(file) => Role::read(file).map(Some).map_err(|error| CliError::Usage(error.to_string())),
            None => Ok(None),
        }
    }

    /// Starts or finds a real API server.
    fn remote(&self, real: &RealCluster, logs: &Path, external: bool) -> Result<Arc<dyn Cluster>, CliError> {
        let remote = RemoteCluster::start(|| real.start(logs)).map_err(CliError::environment)?;
        self.same_release(&remote)?;
        if external {
            return Ok(Arc::new(remote.unseen()));
        }
        let tests = !matches!(self.subject, Some(SubjectKind::None));
        if tests && !remote.built_in().is_empty() {
            let why = "the cluster's built-in controllers are on and would interfere with the subject: test them with \
                       --subject external, or switch them off";
            return Err(CliError::Usage(why.to_owned()));
        }
        Ok(Arc::new(remote.with_seed(self.seed())))
    }

    /// Checks that a real API server has the release to judge by.
    fn same_release(&self, cluster: &impl Cluster) -> Result<(), CliError> {
        let Some(wanted) = self.kubernetes_version else { return Ok(()) };
        let version = cluster.kubernetes().map_err(CliError::environment)?;
        release_conflict(wanted, cluster.name(), &version).map_or(Ok(()), |why| Err(CliError::Usage(why)))
    }

    fn subject(&self, logs: &Path) -> Result<Arc<dyn Subject>, CliError> {
        let kind = self.named_subject().unwrap_or(SubjectKind::InProcess);
        let lonely = self.about_a_command();
        if self.command.is_none() && !lonely.is_empty() {
            return Err(CliError::Usage(format!("{} requires --command", lonely.join(", "))));
        }
        let command = match (kind, &self.command) {
            (SubjectKind::InProcess, None) => return Ok(Arc::new(InProcess)),
            (SubjectKind::None, None) => return Ok(Arc::new(NoSubject)),
            (SubjectKind::External, None) => {
                return Ok(Arc::new(External {
                    name: self.about.subject_name.clone().unwrap_or_else(|| "external".to_owned()),
                    controllers: self.about.subject_controllers.iter().copied().collect(),
                    features: self.about.features.iter().cloned().collect(),
                }));
            }
            (SubjectKind::Command, Some(command)) => command,
            (SubjectKind::Command, None) => {
                return Err(CliError::Usage("--subject command needs --command".to_owned()));
            }
            (_, Some(_)) => return Err(CliError::Usage("--command requires --subject command".to_owned())),
        };
        let (program, argv) = command_line(command)?;
        let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Arc::new(Command {
            name: self.about.subject_name.clone().or(name).unwrap_or(program),
            argv,
            env: self.about.command_env.clone(),
            controllers: self.about.subject_controllers.iter().copied().collect(),
            agents: self.about.agent.clone(),
            bystander_writes: self.about.bystander_writes,
            companions: self.about.companion.clone(),
            features: self.about.features.iter().cloned().collect::<BTreeSet<_>>(),
            ready_url: self.about.ready_url.clone(),
            ready_log: self.about.ready_log.clone(),
            metrics_url: self.about.metrics_url.clone(),
            ready_limit: self.about.ready_timeout,
            log_folder: logs.to_owned(),
            any: false,
        }))
    }
}

/// Returns the number of fixtures that run in parallel, at most `usual`, and explains it if a start was measured.
fn default_jobs(usual: usize, cost: Option<&StartCost>) -> usize {
    let Some(cost) = cost else { return usual };
    let machine = Machine { cores: load::cores(), memory: load::available_memory() };
    let jobs = capacity::jobs(cost, machine, usual);
    notify(&format!("plumbline: {}", choice(jobs, cost, machine.cores)));
    jobs
}

/// Explains the number of jobs.
fn choice(jobs: usize, cost: &StartCost, cores: usize) -> String {
    let seconds = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
    let waited = if cost.waited > cost.used / 4 {
        format!(" and waits {} for other programs", seconds(cost.waited))
    } else {
        String::new()
    };
    format!(
        "{jobs} fixtures run in parallel: a start of the subject takes {} of processor time{waited}, {} until it is \
         ready and {} MB of memory on {cores} cores (-j sets another number)",
        seconds(cost.used),
        seconds(cost.ready),
        cost.resident / 1_000_000
    )
}

/// Returns the reason if an API server of this version cannot be judged as `wanted`.
fn release_conflict(wanted: KubernetesVersion, cluster: &str, version: &str) -> Option<String> {
    let differs = Release::of_git_version(version) != Release::of_git_version(wanted.git_version());
    differs.then(|| {
        format!(
            "--kubernetes-version {wanted}, but the API server of {cluster} is {version}: remove the flag to judge by \
             the server's release, or choose another cluster"
        )
    })
}

/// Explains an agent of the subject that names none of several controllers under test.
fn unnamed_agent(agent: &str) -> String {
    let names = "disruption-controller, pod-garbage-collector, taint-eviction-controller, ttl-controller";
    format!(
        "plumbline: note: the subject's client with the user agent `{agent}` names none of its controllers, so nothing \
         that it writes can be attributed to one of them\n  next: let each controller end its user agent in its name \
         ({names}), map agents with --agent ttl=REGEX, or test one controller at a time"
    )
}

/// Reads `NAME=VALUE`.
///
/// # Errors
///
/// Returns the reason.
pub fn variable(text: &str) -> Result<(String, String), ValueError> {
    let (name, value) = text.split_once('=').ok_or_else(|| ValueError::new("expected NAME=VALUE"))?;
    if name.is_empty() { Err(ValueError::new("the name is empty")) } else { Ok((name.to_owned(), value.to_owned())) }
}

fn agent(text: &str) -> Result<(Controller, Regex), ValueError> {
    let (of, pattern) = variable(text).map_err(|_| ValueError::new("expected CONTROLLER=REGEX"))?;
    Ok((controller(&of)?, Regex::new(&pattern).map_err(|error| ValueError::new(error.to_string()))?))
}

fn feature(text: &str) -> Result<String, ValueError> {
    if implementation::is_feature(text) {
        Ok(text.to_owned())
    } else {
        Err(ValueError::new(format!("there is no feature `{text}`; fixtures/README.md has the list")))
    }
}

fn companion(text: &str) -> Result<(Controller, String), ValueError> {
    let (of, name) = variable(text).map_err(|_| ValueError::new("expected CONTROLLER=NAME"))?;
    Ok((controller(&of)?, name))
}

/// Reads the name of a controller.
///
/// # Errors
///
/// Returns the names that are known.
pub fn controller(text: &str) -> Result<Controller, ValueError> {
    let known = || Controller::ALL.map(Controller::as_str).join(", ");
    Controller::parse(text).ok_or_else(|| ValueError::new(format!("unknown controller; known: {}", known())))
}

/// Returns the program of a command line, and all its words.
pub(super) fn command_line(command: &str) -> Result<(String, Vec<String>), CliError> {
    let argv = shell_words::split(command).map_err(|error| CliError::Usage(format!("--command: {error}")))?;
    let Some(program) = argv.first() else { return Err(CliError::Usage("--command is empty".to_owned())) };
    if let Some((word, near)) = misspelt_placeholder(&argv) {
        return Err(CliError::Usage(format!("--command: there is no placeholder {word}; did you mean {near}?")));
    }
    Ok((program.clone(), argv))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::equal(KubernetesVersion::V1_36, "v1.36.4-k3s1", None)]
    #[case::later(
        KubernetesVersion::V1_36,
        "v1.37.0",
        Some("--kubernetes-version 1.36, but the API server of k3s is v1.37.0")
    )]
    #[case::unreadable(
        KubernetesVersion::V1_37,
        "v1",
        Some("--kubernetes-version 1.37, but the API server of k3s is v1")
    )]
    fn a_real_server_keeps_its_release(
        #[case] wanted: KubernetesVersion,
        #[case] version: &str,
        #[case] why: Option<&str>,
    ) {
        let conflict = release_conflict(wanted, "k3s", version);
        assert_eq!(conflict.is_some(), why.is_some());
        assert!(conflict.is_none_or(|text| why.is_some_and(|why| text.starts_with(why))));
    }
}
