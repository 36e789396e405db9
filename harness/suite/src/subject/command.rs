//! Any program as a subject: started with a kubeconfig, observed by the server, killed with its children.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http_body_util::BodyExt as _;
use plumbline::fixture::error::nearest;
use plumbline::fixture::{Capability, Controller};
use plumbline::time::Clock;
use plumbline::transcript::AgentRules;
use regex::Regex;
use serde_json::Value;

use super::client_factory::KillSwitch;
use super::{BystanderWrites, Identity, Launch, Running, Subject, SubjectError};
use crate::cluster::{Access, client};
use crate::digest;
use crate::process::tree::ProcessTree;
use crate::process::{GuardedProcess, ProcessSpec};

/// Time limit for ending after SIGTERM.
const STOP_LIMIT_OF_PROGRAM: Duration = Duration::from_secs(30);
/// Pause between two readiness probes.
const PROBE_PAUSE: Duration = Duration::from_millis(100);
/// Time limit for a request of a probe.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Number of log lines kept as evidence.
const LOG_LINES: usize = 200;

/// A program and its settings.
///
/// The placeholders `{kubeconfig}`, `{server}` (the URL), `{token}`, `{token-file}`, `{ca-file}`, `{port}` (a free
/// one) and `{controllers}` (kube-controller-manager's names, comma-separated) are replaced in arguments, variables and
/// URLs; an argument `{flags}` is replaced by the fixture's flags. If no argument has a placeholder, the program is
/// treated as a drop-in for kube-controller-manager: `--kubeconfig=…`, `--controllers=…`, the fixture's flags and,
/// unless the command line has it, `--secure-port={port}` are appended. Flags of the command line that the fixture sets
/// are left out.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The name in reports.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// The controllers it implements; empty for all.
    pub controllers: BTreeSet<Controller>,
    /// User agents of its controllers that do not end in their names.
    pub agents: Vec<(Controller, Regex)>,
    /// Treatment of writes by its clients that are none of the controllers under test.
    pub bystander_writes: BystanderWrites,
    /// Names added to `{controllers}` when a controller is tested that depends on them.
    pub companions: Vec<(Controller, String)>,
    /// Declared features, as globs.
    pub features: BTreeSet<String>,
    /// Ready when this URL returns 200.
    pub ready_url: Option<String>,
    /// Ready when a line of its output matches.
    pub ready_log: Option<Regex>,
    /// URL of its metrics, as Prometheus text.
    pub metrics_url: Option<String>,
    /// Time limit for becoming ready.
    pub ready_limit: Duration,
    /// Folder for its logs, one file per start.
    pub log_folder: PathBuf,
    /// True if it is any program, not an implementation of controllers: see [`Subject::is_program`]. Nothing is
    /// appended to its command line, and `KUBECONFIG` names the kubeconfig.
    pub any: bool,
}

/// The kind of subject in reports.
pub const KIND: &str = "command";

const PLACEHOLDERS: [&str; 8] =
    ["{kubeconfig}", "{server}", "{token}", "{token-file}", "{ca-file}", "{port}", "{controllers}", "{flags}"];

/// Returns a word in braces that is nearly a placeholder, and the placeholder.
pub fn misspelt_placeholder(argv: &[String]) -> Option<(String, &'static str)> {
    let pattern = Regex::new(r"\{[a-z_-]+\}").ok()?;
    let words = argv.iter().flat_map(|argument| pattern.find_iter(argument)).map(|found| found.as_str());
    let mut unknown = words.filter(|word| !PLACEHOLDERS.contains(word));
    unknown.find_map(|word| Some((word.to_owned(), nearest(word, PLACEHOLDERS)?)))
}

impl Command {
    fn is_drop_in(&self) -> bool {
        !self.any && !self.argv.iter().any(|argument| PLACEHOLDERS.iter().any(|word| argument.contains(word)))
    }

    /// Returns the variables added to the environment.
    fn variables(&self, values: &Placeholders<'_>) -> Vec<(OsString, OsString)> {
        let kubeconfig = self.any.then(|| ("KUBECONFIG".into(), values.credentials.kubeconfig.clone().into()));
        let given = self.env.iter().map(|(key, value)| (key.into(), values.fill(value).into()));
        kubeconfig.into_iter().chain(given).collect()
    }

    /// Returns the complete command line.
    fn arguments(&self, values: &Placeholders<'_>) -> Vec<OsString> {
        let mut arguments = Vec::new();
        // What a fixture sets replaces what the command line has: some programs refuse a flag that they get twice.
        let is_replaced = |argument: &str| {
            let name = argument.strip_prefix("--").and_then(|rest| rest.split_once('=')).map(|(name, _)| name);
            name.is_some_and(|name| values.flags.contains_key(name))
        };
        for argument in self.argv.iter().filter(|argument| !is_replaced(argument)) {
            if argument == "{flags}" {
                arguments.extend(values.flags());
            } else {
                arguments.push(values.fill(argument));
            }
        }
        if self.is_drop_in() {
            arguments.push(values.fill("--kubeconfig={kubeconfig}"));
            arguments.push(values.fill("--controllers={controllers}"));
            arguments.extend(values.flags());
            if !self.argv.iter().any(|argument| argument.starts_with("--secure-port")) {
                arguments.push(values.fill("--secure-port={port}"));
            }
        }
        arguments.into_iter().map(OsString::from).collect()
    }
}

/// Returns the digests of the files that arguments name, alone or as the value of a flag (`--config=FILE`).
fn named_files(argv: &[String]) -> Result<BTreeMap<String, String>, digest::ReadError> {
    let mut files = BTreeMap::new();
    for argument in argv.iter().skip(1) {
        let value = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with('-') => value,
            _ => argument,
        };
        let path = Path::new(value);
        if path.is_file() {
            files.insert(value.to_owned(), digest::file(path)?);
        }
    }
    Ok(files)
}

/// Values of the placeholders.
struct Placeholders<'a> {
    credentials: Credentials,
    port: u16,
    controllers: String,
    flags: &'a BTreeMap<String, String>,
}

/// The subject's way to the server, from its kubeconfig.
#[derive(Debug, Default)]
struct Credentials {
    kubeconfig: String,
    server: String,
    token: String,
    token_file: String,
    ca_file: String,
}

impl Credentials {
    /// Reads `kubeconfig`, and writes its token and authority into files beside it, readable by their owner only.
    fn read(kubeconfig: &Path) -> Result<Self, SubjectError> {
        let unusable = |why: &dyn std::fmt::Display| {
            SubjectError::NotStarted(format!("the kubeconfig {} is not usable: {why}", kubeconfig.display()))
        };
        let text = std::fs::read_to_string(kubeconfig).map_err(|error| unusable(&error))?;
        let config: Value = serde_saphyr::from_str(&text).map_err(|error| unusable(&error.without_snippet()))?;
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let token = field(&user["token"]);
        let file = |name: &str, content: &[u8]| {
            let path = kubeconfig.with_file_name(name);
            match write_private(&path, content) {
                Ok(()) => Ok(path.display().to_string()),
                Err(error) => Err(unusable(&format!("unable to write {}: {error}", path.display()))),
            }
        };
        let ca_file = match cluster["certificate-authority-data"].as_str() {
            Some(data) => file("ca.crt", &BASE64_STANDARD.decode(data).map_err(|error| unusable(&error))?)?,
            None => field(&cluster["certificate-authority"]),
        };
        Ok(Self {
            kubeconfig: kubeconfig.display().to_string(),
            server: field(&cluster["server"]),
            token_file: file("token", token.as_bytes())?,
            token,
            ca_file,
        })
    }
}

/// Writes a file that only its owner can read; an existing one is replaced.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)
}

impl Placeholders<'_> {
    fn fill(&self, text: &str) -> String {
        let Credentials { kubeconfig, server, token, token_file, ca_file } = &self.credentials;
        text.replace("{kubeconfig}", kubeconfig)
            .replace("{server}", server)
            .replace("{token}", token)
            .replace("{token-file}", token_file)
            .replace("{ca-file}", ca_file)
            .replace("{port}", &self.port.to_string())
            .replace("{controllers}", &self.controllers)
    }

    fn flags(&self) -> impl Iterator<Item = String> {
        self.flags.iter().map(|(name, value)| format!("--{name}={value}"))
    }
}

impl Subject for Command {
    fn name(&self) -> &str {
        &self.name
    }

    /// The command line, the digest of its program file, and those of the files that the arguments name, such as the
    /// script that an interpreter runs.
    fn identity(&self) -> Result<Identity, SubjectError> {
        let program = self.argv.first().map(String::as_str).unwrap_or_default();
        let file = digest::program(program)
            .ok_or_else(|| SubjectError::Unidentified(format!("no program {program} found")))?;
        let what = shell_words::join(&self.argv);
        Ok(Identity {
            kind: KIND,
            what,
            digest: Some(digest::file(&file).map_err(|error| SubjectError::Unidentified(error.to_string()))?),
            files: named_files(&self.argv).map_err(|error| SubjectError::Unidentified(error.to_string()))?,
            environment: self.env.iter().map(|(name, _)| name.clone()).collect(),
            companions: self.companions.iter().map(|(of, name)| format!("{of}={name}")).collect(),
        })
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        if self.controllers.is_empty() { Controller::ALL.into() } else { self.controllers.clone() }
    }

    fn agents(&self) -> AgentRules {
        let companions = self.companions.iter().map(|(_, name)| name.clone()).collect();
        AgentRules { patterns: self.agents.clone(), companions, program: self.any.then(|| self.name.clone()) }
    }

    fn bystander_writes(&self) -> BystanderWrites {
        self.bystander_writes
    }

    fn features(&self) -> BTreeSet<String> {
        self.features.clone()
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        let metrics = self.metrics_url.is_none().then_some(Capability::Metrics);
        metrics.into_iter().chain([Capability::Replicas]).collect()
    }

    fn refuses(&self, flags: &BTreeMap<String, String>) -> Option<String> {
        let takes = self.is_drop_in() || self.argv.iter().any(|argument| argument == "{flags}");
        let names: Vec<_> = flags.keys().map(|name| format!("--{name}")).collect();
        (!takes && !flags.is_empty())
            .then(|| format!("its command line has no place for {}: add {{flags}}", names.join(", ")))
    }

    fn is_program(&self) -> bool {
        self.any
    }

    fn is_virtual(&self) -> bool {
        false
    }

    fn ready_limit(&self) -> Duration {
        self.ready_limit
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        static STARTS: AtomicU64 = AtomicU64::new(1);
        let Access::Kubeconfig(kubeconfig) = launch.access else {
            let why = "a command subject needs a cluster that is reachable over a socket";
            return Err(SubjectError::NotStarted(why.to_owned()));
        };
        let companions = self.companions.iter().filter(|(of, _)| launch.controllers.contains(of));
        let names: Vec<&str> = launch
            .controllers
            .iter()
            .map(|controller| controller.flag_name())
            .chain(companions.map(|(_, name)| name.as_str()))
            .collect();
        let values = Placeholders {
            credentials: Credentials::read(kubeconfig)?,
            port: crate::process::free_port()
                .map_err(|error| SubjectError::NotStarted(format!("unable to find a free port: {error}")))?,
            controllers: names.join(","),
            flags: launch.flags,
        };
        let number = STARTS.fetch_add(1, Ordering::Relaxed);
        let start = ProcessSpec {
            argv: self.arguments(&values),
            env: self.variables(&values),
            folder: None,
            log: self.log_folder.join(format!("subject-{number:05}.log")),
        };
        Ok(Box::new(RunningCommand {
            process: start.spawn().map_err(|error| SubjectError::NotStarted(error.to_string()))?,
            kill_switch: KillSwitch::default(),
            ready_url: self.ready_url.as_deref().map(|url| values.fill(url)),
            ready_log: self.ready_log.clone(),
            ready_limit: self.ready_limit,
            metrics_url: self.metrics_url.as_deref().map(|url| values.fill(url)),
            clock: Clock::wall(),
        }))
    }
}

struct RunningCommand {
    process: GuardedProcess,
    kill_switch: KillSwitch,
    ready_url: Option<String>,
    ready_log: Option<Regex>,
    ready_limit: Duration,
    metrics_url: Option<String>,
    clock: Clock,
}

impl RunningCommand {
    /// Returns the reason if it is not ready.
    async fn not_ready(&self) -> Option<String> {
        if let Some(url) = &self.ready_url
            && let Err(why) = get(&self.clock, url).await
        {
            return Some(why.to_string());
        }
        let pattern = self.ready_log.as_ref()?;
        let lines = self.process.log_tail(usize::MAX);
        (!lines.iter().any(|line| pattern.is_match(line))).then(|| format!("no line of its log matches {pattern}"))
    }

    fn with_log(&self, why: &str) -> String {
        let lines = self.process.log_tail(10).join("\n    ");
        let log = self.process.log().display();
        if lines.is_empty() {
            format!("{why} (empty log: {log})")
        } else {
            format!("{why}; the end of {log}:\n    {lines}")
        }
    }
}

impl Running for RunningCommand {
    fn kill_switch(&self) -> KillSwitch {
        self.kill_switch.clone()
    }

    fn ready(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async {
            let begin = self.clock.elapsed();
            while let Some(why) = self.not_ready().await {
                if let Some(end) = self.process.ended() {
                    let why = format!("the subject ended before it was ready: {end}");
                    return Err(SubjectError::NotReady(self.with_log(&why)));
                }
                if self.clock.elapsed().saturating_sub(begin) > self.ready_limit {
                    let seconds = self.ready_limit.as_secs();
                    let why = format!("the subject is not ready after {seconds} s: {why}");
                    return Err(SubjectError::NotReady(self.with_log(&why)));
                }
                self.clock.sleep(PROBE_PAUSE).await;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    fn processes(&self) -> Option<ProcessTree> {
        self.process.tree()
    }

    fn crash(&mut self) {
        self.kill_switch.trip();
        self.process.kill();
    }

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        self.process
            .terminate(STOP_LIMIT_OF_PROGRAM)
            .map_err(|error| SubjectError::NotStopped(error.to_string()))
            .boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async {
            let missing =
                || SubjectError::NoMetrics("no metrics URL is set for the command; use --metrics-url".to_owned());
            let url = self.metrics_url.as_ref().ok_or_else(missing)?;
            get(&self.clock, url).await.map_err(|error| SubjectError::NoMetrics(error.to_string()))
        }
        .boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        let end = self.process.ended()?;
        Some(self.with_log(&end))
    }

    fn end_signal(&self) -> LocalBoxFuture<'static, ()> {
        self.process.end_signal()
    }

    fn log(&self) -> Vec<String> {
        self.process.log_tail(LOG_LINES)
    }
}

/// A request to the subject's own server that failed.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0:?} is not a URL with http or https and a host")]
    Url(String),
    #[error("{url} returned {code}")]
    Code { url: String, code: u16 },
    #[error("{url} did not respond")]
    Silence { url: String },
    #[error("{url}: {why}")]
    Failed { url: String, why: String },
}

/// Returns the body of a plain GET.
async fn get(clock: &Clock, url: &str) -> Result<String, FetchError> {
    let uri: http::Uri = url.parse().map_err(|_| FetchError::Url(url.to_owned()))?;
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err(FetchError::Url(url.to_owned()));
    };
    let failed = |error: &dyn std::fmt::Display| FetchError::Failed { url: url.to_owned(), why: error.to_string() };
    let base = format!("{scheme}://{authority}").parse().map_err(|error: http::uri::InvalidUri| failed(&error))?;
    let client = client::of_own_program(base).map_err(|error| failed(&error))?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = http::Request::get(path).body(kube::client::Body::empty()).map_err(|error| failed(&error))?;
    let exchange = async {
        let response = client.send(request).await.map_err(|error| failed(&error))?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        if code == 200 {
            return Ok(String::from_utf8_lossy(&body).into_owned());
        }
        Err(FetchError::Code { url: url.to_owned(), code })
    };
    let ended = clock.timeout(REQUEST_LIMIT, exchange).await;
    ended.unwrap_or_else(|| Err(FetchError::Silence { url: url.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn command(argv: &[&str]) -> Command {
        Command { argv: argv.iter().map(|argument| (*argument).to_owned()).collect(), ..Command::default() }
    }

    #[rstest]
    #[case::drop_in(
        &["kcm", "--v=2"],
        "kcm --v=2 --kubeconfig=/k --controllers=ttl-controller --terminated-pod-gc-threshold=1 --secure-port=8080"
    )]
    #[case::drop_in_with_a_port(
        &["kcm", "--secure-port=0"],
        "kcm --secure-port=0 --kubeconfig=/k --controllers=ttl-controller --terminated-pod-gc-threshold=1"
    )]
    #[case::without_a_kubeconfig(
        &["x", "{server}", "{token}", "{token-file}", "{ca-file}"],
        "x https://127.0.0.1:1 t0ken /t /ca"
    )]
    #[case::own_words(&["x", "-c", "{kubeconfig}", "-p", ":{port}"], "x -c /k -p :8080")]
    #[case::flags_have_a_place(
        &["x", "{flags}", "--k={kubeconfig}", "{controllers}"],
        "x --terminated-pod-gc-threshold=1 --k=/k ttl-controller"
    )]
    #[case::a_flag_of_the_fixture_replaces_that_of_the_command_line(
        &["x", "--terminated-pod-gc-threshold=7", "{flags}"],
        "x --terminated-pod-gc-threshold=1"
    )]
    fn command_lines(#[case] argv: &[&str], #[case] expected: &str) {
        let flags = BTreeMap::from([("terminated-pod-gc-threshold".to_owned(), "1".to_owned())]);
        let text = |text: &str| text.to_owned();
        let credentials = Credentials {
            kubeconfig: text("/k"),
            server: text("https://127.0.0.1:1"),
            token: text("t0ken"),
            token_file: text("/t"),
            ca_file: text("/ca"),
        };
        let values = Placeholders { credentials, port: 8080, controllers: "ttl-controller".to_owned(), flags: &flags };
        let line: Vec<_> =
            command(argv).arguments(&values).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(line.join(" "), expected);
        let refused = command(argv).refuses(&flags);
        assert_eq!(refused.is_some(), !expected.contains("threshold"), "{refused:?}");
        assert_eq!(command(argv).refuses(&BTreeMap::new()), None);
    }
}
