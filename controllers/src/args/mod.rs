//! Command-line flags, named as kube-controller-manager's.

pub mod duration;
pub mod leader_elect;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use self::leader_elect::LeaderElectArgs;
use crate::app::{Config, Controller};
use crate::runtime::client::Limits;
use crate::runtime::leader::TimingError;
use crate::views::int_or_percent::Rounding;

/// Kubernetes' disruption, pod garbage collector, taint-eviction and ttl controllers.
#[derive(Debug, Parser)]
#[command(name = "plumbline-controllers", version, about, after_help = AFTER_HELP)]
pub struct Args {
    /// Path of the kubeconfig. Without it: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the kubeconfig's
    #[arg(long, value_name = "URL")]
    pub master: Option<http::Uri>,

    /// Controllers to enable: `*` for all, `foo` for the one named foo, `-foo` to leave it out
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// Terminated pods that may exist before the garbage collector deletes some; 0 or less: any number
    #[arg(long, value_name = "PODS", default_value_t = 12_500, allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,

    /// Pod disruption budgets synced at the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrent_disruption_syncs: u16,

    /// Which way a percentage in maxUnavailable is rounded: up as Kubernetes, or down
    #[arg(long, value_name = "WAY", value_enum, default_value_t = RoundingArg::Up)]
    pub max_unavailable_rounding: RoundingArg,

    /// Requests per second of each controller in the long run; 0 or less: unlimited
    #[arg(long, value_name = "QPS", default_value_t = 20.0, allow_negative_numbers = true)]
    pub kube_api_qps: f64,

    /// Requests that each controller may send at once
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_api_burst: u32,

    #[command(flatten)]
    pub leader_elect: LeaderElectArgs,

    /// Log verbosity as klog's: 0 to 3 normal, 4 and 5 debug, from 6 trace. The variable `RUST_LOG` overrides it
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,

    /// Form of log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

const AFTER_HELP: &str = "\
Controllers (short name in parentheses): disruption-controller (disruption), pod-garbage-collector-controller (podgc), \
taint-eviction-controller, ttl-controller (ttl)

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 a bug, 2 wrong flags, 3 no usable kubeconfig, 4 the lease was lost";

/// [`Rounding`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoundingArg {
    /// As Kubernetes.
    Up,
    /// As the design document.
    Down,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Flags that clap accepts and that still make no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// As upstream words it.
    #[error("--controllers: {0:?} is not in the list of known controllers ({known})", known = known())]
    UnknownController(String),
    /// Nothing to do.
    #[error("--controllers: {0:?} enables no controller; name at least one of {known}, or '*'", known = known())]
    NothingEnabled(String),
    /// Not a number.
    #[error("--kube-api-qps: {0} is not a finite number")]
    Qps(String),
    /// Two replicas could work at once.
    #[error("--leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period: {0}")]
    LeaderElect(TimingError),
}

/// A boolean as Go's flags read it.
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("not true or false".to_owned()),
    }
}

fn known() -> String {
    Controller::ALL.map(Controller::name).join(", ")
}

impl Args {
    /// What to run, without leader election: see [`LeaderElectArgs::election`].
    ///
    /// # Errors
    /// [`ArgsError`] for an unknown controller, for none enabled and for rates that are no numbers.
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
            election: None,
        })
    }

    /// The level of our log lines.
    pub fn log_level(&self) -> &'static str {
        match self.verbosity {
            0..=3 => "info",
            4..=5 => "debug",
            _ => "trace",
        }
    }
}

/// Upstream's rule: the first word about a controller counts; without one, `*` anywhere enables it.
fn enabled(names: &[String]) -> Result<BTreeSet<Controller>, ArgsError> {
    let mut words = Vec::new();
    for name in names.iter().filter(|name| *name != "*") {
        let (bare, enable) = name.strip_prefix('-').map_or((name.as_str(), true), |bare| (bare, false));
        let controller = Controller::named(bare).ok_or_else(|| ArgsError::UnknownController(bare.to_owned()))?;
        words.push((controller, enable));
    }
    let star = names.iter().any(|name| name == "*");
    let word = |controller: &Controller| words.iter().find(|(named, _)| named == controller).map(|(_, enable)| *enable);
    let enabled: BTreeSet<_> = Controller::ALL.into_iter().filter(|c| word(c).unwrap_or(star)).collect();
    if enabled.is_empty() { Err(ArgsError::NothingEnabled(names.join(","))) } else { Ok(enabled) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::runtime::leader::{Election, Timing};

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn parse(flags: &[&str]) -> Result<Config, ArgsError> {
        Args::try_parse_from([&["plumbline-controllers"], flags].concat()).unwrap().config()
    }

    #[test]
    fn defaults_are_upstreams() {
        assert_eq!(parse(&[]), Ok(Config::default()));
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
        assert_eq!(config.controllers.iter().map(|c| c.name()).collect::<Vec<_>>().join(" "), expected);
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
