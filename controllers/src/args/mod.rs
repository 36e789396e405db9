//! Command-line flags, named as kube-controller-manager's; [`layers`] merges them with other sources.

mod boolean;
pub mod duration;
mod error;
pub mod layers;
pub mod leader_elect;
pub mod serve;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use self::boolean::parse_bool;
pub use self::error::ArgsError;
use self::leader_elect::LeaderElectArgs;
use self::serve::ServeArgs;
use crate::api::int_or_percent::Rounding;
use crate::app::{Config, ControllerName};
use crate::runtime::client::Encoding;
use crate::runtime::client::Limits;

/// Kubernetes' disruption, pod garbage collector, taint-eviction and ttl controllers.
#[derive(Debug, Parser)]
#[command(name = "plumbline-controllers", version, about, after_help = AFTER_HELP, args_override_self = true)]
pub struct Args {
    /// Configuration file in YAML: flag names without the dashes, e.g. `kube-api-qps: 50`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Write shell completions to standard output and exit
    #[arg(long, value_name = "SHELL", value_enum)]
    pub completions: Option<clap_complete::Shell>,

    /// Path of the kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE", help_heading = API_SERVER)]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the kubeconfig's
    #[arg(long, value_name = "URL", help_heading = API_SERVER)]
    pub master: Option<http::Uri>,

    /// Controllers to enable: `*` for all, `foo` for the one named foo, `-foo` to disable it
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "*", allow_hyphen_values = true,
        action = ArgAction::Append, help_heading = CONTROLLERS)]
    pub controllers: Vec<String>,

    /// Number of terminated pods that may exist before the garbage collector deletes some; 0 or less: unlimited
    #[arg(long, value_name = "PODS", default_value_t = 12_500, allow_negative_numbers = true,
        help_heading = CONTROLLERS)]
    pub terminated_pod_gc_threshold: i32,

    /// Number of pod disruption budgets synced concurrently (upstream: 1)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..),
        help_heading = CONTROLLERS)]
    pub concurrent_disruption_syncs: u16,

    /// Rounding of a percentage in maxUnavailable: up as Kubernetes does, or down
    #[arg(long, value_name = "WAY", value_enum, default_value_t = RoundingArg::Up, help_heading = CONTROLLERS)]
    pub max_unavailable_rounding: RoundingArg,

    /// Sustained request rate of each controller per second; 0 or less: unlimited
    #[arg(long, value_name = "QPS", default_value_t = 20.0, allow_negative_numbers = true, help_heading = API_SERVER)]
    pub kube_api_qps: f64,

    /// Maximum burst of requests of each controller
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..),
        help_heading = API_SERVER)]
    pub kube_api_burst: u32,

    /// Give each controller its own identity: the service account kube-system/<controller>, created if missing, with
    /// tokens that this program requests
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", value_parser = parse_bool,
        help_heading = API_SERVER)]
    pub use_service_account_credentials: bool,

    /// Encoding of lists and watches if the server supports it; writes and single reads use JSON
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = ContentType::Protobuf, help_heading = API_SERVER)]
    pub kube_api_content_type: ContentType,

    /// Leader election.
    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,

    /// Health and metrics.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Log verbosity as in klog: 0 to 3 info, 4 and 5 debug, 6 and above trace. The variable `RUST_LOG` overrides it
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0, help_heading = LOGS)]
    pub verbosity: u8,

    /// Format of log lines
    #[arg(long, alias = "log-format", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text,
        help_heading = LOGS)]
    pub logging_format: LogFormat,
}

const API_SERVER: &str = "API server";
const CONTROLLERS: &str = "Controllers";
const LOGS: &str = "Logs";

const AFTER_HELP: &str = "\
Controllers (short name in parentheses): disruption-controller (disruption), pod-garbage-collector-controller (podgc), \
taint-eviction-controller, ttl-controller (ttl)

Every setting can also be set by the variable PLUMBLINE_<NAME> (PLUMBLINE_KUBE_API_QPS=50) or in the file of \
--config; flags win over variables, variables over the file. Booleans are written --flag=false. If a flag is given \
twice, the last one wins, except for --controllers, whose values are combined.

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 a bug, 2 invalid flags, 3 no usable kubeconfig, 4 the lease was \
lost, 5 the health and metrics port cannot be opened";

/// [`Encoding`] as a flag, named by the media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContentType {
    /// Lists in pages of JSON.
    #[value(name = "application/json")]
    Json,
    /// Lists and watches streamed as protobuf; falls back to JSON if the server does not support it.
    #[value(name = "application/vnd.kubernetes.protobuf")]
    Protobuf,
}

/// [`Rounding`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoundingArg {
    /// Up, as Kubernetes does.
    Up,
    /// Down, as the design document requires.
    Down,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

impl Args {
    /// Returns the application's configuration without leader election, see [`LeaderElectArgs::election`].
    ///
    /// # Errors
    /// [`ArgsError`] for an unknown controller, if none is enabled, and for a rate that is not a finite number.
    pub fn config(&self) -> Result<Config, ArgsError> {
        if !self.kube_api_qps.is_finite() {
            return Err(ArgsError::Qps(self.kube_api_qps.to_string()));
        }
        let limits = Limits { qps: self.kube_api_qps, burst: self.kube_api_burst, ..Limits::default() };
        Ok(Config {
            controllers: enabled(&self.controllers)?,
            terminated_pod_gc_threshold: usize::try_from(self.terminated_pod_gc_threshold).unwrap_or(0),
            concurrent_disruption_syncs: self.concurrent_disruption_syncs.into(),
            max_unavailable_rounding: match self.max_unavailable_rounding {
                RoundingArg::Up => Rounding::Up,
                RoundingArg::Down => Rounding::Down,
            },
            limits,
            encoding: match self.kube_api_content_type {
                ContentType::Json => Encoding::Json,
                ContentType::Protobuf => Encoding::Protobuf,
            },
            election: None,
        })
    }

    /// Returns the log level of this crate.
    pub fn log_level(&self) -> &'static str {
        match self.verbosity {
            0..=3 => "info",
            4..=5 => "debug",
            _ => "trace",
        }
    }
}

/// Applies upstream's rule: the first entry for a controller wins; without an entry, `*` anywhere enables it.
fn enabled(names: &[String]) -> Result<BTreeSet<ControllerName>, ArgsError> {
    let mut words = Vec::new();
    for name in names.iter().filter(|name| *name != "*") {
        let (bare, enable) = name.strip_prefix('-').map_or((name.as_str(), true), |bare| (bare, false));
        let controller =
            ControllerName::from_name(bare).ok_or_else(|| ArgsError::UnknownController(bare.to_owned()))?;
        words.push((controller, enable));
    }
    let star = names.iter().any(|name| name == "*");
    let word =
        |controller: &ControllerName| words.iter().find(|(named, _)| named == controller).map(|(_, enable)| *enable);
    let enabled: BTreeSet<_> = ControllerName::ALL.into_iter().filter(|c| word(c).unwrap_or(star)).collect();
    if enabled.is_empty() { Err(ArgsError::NothingEnabled(names.join(","))) } else { Ok(enabled) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::runtime::leader::{Election, Timing};
    use crate::runtime::serve::ServeOptions;
    use crate::runtime::serve::tls::CertificateSource;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn parse(flags: &[&str]) -> Result<Config, ArgsError> {
        Args::try_parse_from([&["plumbline-controllers"], flags].concat()).unwrap().config()
    }

    #[test]
    fn defaults_are_upstreams() {
        let binary = Config { encoding: Encoding::Protobuf, ..Config::default() };
        assert_eq!(parse(&[]), Ok(binary));
        assert_eq!(parse(&["--kube-api-content-type=application/json"]), Ok(Config::default()));
    }

    #[rstest]
    #[case::star(
        "*",
        "disruption-controller pod-garbage-collector-controller taint-eviction-controller ttl-controller"
    )]
    #[case::one("ttl-controller", "ttl-controller")]
    #[case::alias("podgc", "pod-garbage-collector-controller")]
    #[case::all_but_two("*,-ttl,-disruption-controller", "pod-garbage-collector-controller taint-eviction-controller")]
    #[case::leading_minus("-ttl,*,-podgc", "disruption-controller taint-eviction-controller")]
    #[case::first_word_counts("ttl,-ttl", "ttl-controller")]
    #[case::star_changes_no_word("-podgc,*,podgc,-ttl,-disruption", "taint-eviction-controller")]
    fn controllers_are_chosen(#[case] flag: &str, #[case] expected: &str) {
        let config = parse(&[&format!("--controllers={flag}")]).unwrap();
        assert_eq!(config.controllers.iter().map(|c| c.as_str()).collect::<Vec<_>>().join(" "), expected);
    }

    #[rstest]
    #[case::unknown("gc", "--controllers: \"gc\" is not in the list of known controllers")]
    #[case::unknown_off("*,-gc", "--controllers: \"gc\" is not in the list of known controllers")]
    #[case::none("-ttl", "--controllers: \"-ttl\" enables no controller")]
    fn senseless_choices_are_refused(#[case] flag: &str, #[case] message: &str) {
        let error = parse(&[&format!("--controllers={flag}")]).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn thresholds_and_rates() {
        let flags = ["--terminated-pod-gc-threshold=-1", "--kube-api-qps=-1", "--max-unavailable-rounding=down"];
        let config = parse(&flags).unwrap();
        assert_eq!(config.terminated_pod_gc_threshold, 0);
        assert_eq!(config.max_unavailable_rounding, Rounding::Down);
        assert_eq!(parse(&["--kube-api-qps=NaN"]), Err(ArgsError::Qps("NaN".into())));
        assert!(Args::try_parse_from(["plumbline-controllers", "--concurrent-disruption-syncs=0"]).is_err());
    }

    #[rstest]
    #[case::default(&[], Some(Timing::default()))]
    #[case::off(&["--leader-elect=false"], None)]
    #[case::bare(&["--leader-elect"], Some(Timing::default()))]
    #[case::times(
        &["--leader-elect-lease-duration=1m", "--leader-elect-renew-deadline=30s", "--leader-elect-retry-period=5s"],
        Some(Timing { lease_duration: secs(60), renew_deadline: secs(30), retry_period: secs(5) })
    )]
    fn elections(#[case] flags: &[&str], #[case] expected: Option<Timing>) {
        let args = Args::try_parse_from([&["plumbline-controllers"], flags].concat()).unwrap();
        let election = args.leader_elect.election("me").unwrap();
        assert_eq!(election.as_ref().map(|election| election.timing), expected);
        let name = |e: Election| (e.namespace, e.name, e.identity);
        let expected = expected.map(|_| ("kube-system".into(), "plumbline-controllers".into(), "me".into()));
        assert_eq!(election.map(name), expected);
    }

    #[rstest]
    #[case::none(&["--secure-port=0"], Ok(None))]
    #[case::certificate_alone(
        &["--tls-cert-file=/a"], Err("--tls-cert-file requires --tls-private-key-file".to_owned())
    )]
    #[case::key_alone(
        &["--tls-private-key-file=/a"], Err("--tls-private-key-file requires --tls-cert-file".to_owned())
    )]
    #[case::files(
        &["--tls-cert-file=/a", "--tls-private-key-file=/b", "--bind-address=::1", "--tls-min-version=VersionTLS13"],
        Ok(Some(ServeOptions {
            address: "[::1]:10257".parse().unwrap(),
            certificate: CertificateSource::Files { cert: "/a".into(), key: "/b".into() },
            tls13_only: true,
        }))
    )]
    #[case::default(&[], Ok(Some(ServeOptions {
        address: "0.0.0.0:10257".parse().unwrap(),
        certificate: CertificateSource::SelfSigned { names: ["localhost", "127.0.0.1", "::1",
            "h"].map(str::to_owned).into() },
        tls13_only: false,
    })))]
    fn ports(#[case] flags: &[&str], #[case] expected: Result<Option<ServeOptions>, String>) {
        let args = Args::try_parse_from([&["plumbline-controllers"], flags].concat()).unwrap();
        assert_eq!(args.serve.options("h").map_err(|error| error.to_string()), expected);
    }

    #[rstest]
    #[case::duration("--leader-elect-renew-deadline=15s", "lease duration must be greater than renew deadline")]
    #[case::deadline("--leader-elect-retry-period=9s", "renew deadline must be greater than retry period x 1.2")]
    #[case::zero("--leader-elect-retry-period=0", "lease duration must be at least 1s")]
    fn times_that_let_two_work_at_once_are_refused(#[case] flag: &str, #[case] message: &str) {
        let args = Args::try_parse_from(["plumbline-controllers", flag]).unwrap();
        let error = args.leader_elect.election("me").unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn flags_are_consistent() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }
}
