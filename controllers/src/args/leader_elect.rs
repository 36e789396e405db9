//! Flags of leader election.

use clap::ArgAction;

use super::boolean::parse_bool;
use super::duration::GoDuration;
use super::error::ArgsError;
use crate::runtime::leader::{Election, Timing};

/// `--leader-elect` and related flags.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderElectArgs {
    /// Elect a leader among several replicas; the others stand by
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub leader_elect: bool,

    /// Time that standbys wait after the last renewal they observed before they take over
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: GoDuration,

    /// Time that the leader may go on after its last renewal; must be less than the lease duration
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: GoDuration,

    /// Interval between renewals of the leader, and between checks of a standby
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: GoDuration,

    /// Kind of the lock object
    #[arg(long, value_name = "KIND", default_value = "leases", value_parser = ["leases"])]
    pub leader_elect_resource_lock: String,

    /// Name of the Lease. Differs from kube-controller-manager's, which continues to run next to this program
    #[arg(long, value_name = "NAME", default_value = "plumbline-controllers", value_parser = dns_name)]
    pub leader_elect_resource_name: String,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", value_parser = dns_name)]
    pub leader_elect_resource_namespace: String,
}

impl LeaderElectArgs {
    /// Returns the election settings of the replica `identity`; `None` if leader election is disabled.
    ///
    /// # Errors
    /// [`ArgsError::LeaderElect`] for timings that would allow two leaders.
    pub fn election(&self, identity: &str) -> Result<Option<Election>, ArgsError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let timing = Timing {
            lease_duration: self.leader_elect_lease_duration.0,
            renew_deadline: self.leader_elect_renew_deadline.0,
            retry_period: self.leader_elect_retry_period.0,
        };
        timing.validate().map_err(ArgsError::LeaderElect)?;
        Ok(Some(Election {
            name: self.leader_elect_resource_name.clone(),
            namespace: self.leader_elect_resource_namespace.clone(),
            identity: identity.to_owned(),
            timing,
        }))
    }
}

/// Accepts names that are valid for a namespace or lease, approximately; the server validates the rest.
fn dns_name(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() <= 253 && bytes.iter().copied().all(fine) && ends(bytes.first()) && ends(bytes.last()) {
        return Ok(text.to_owned());
    }
    Err("a name consists of lower case letters, digits, '-' and '.', and begins and ends with a letter or digit".into())
}
