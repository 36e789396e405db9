//! The flags of leader election.

use clap::ArgAction;

use super::duration::GoDuration;
use super::{ArgsError, parse_bool};
use crate::runtime::leader::{Election, Timing};

/// `--leader-elect` and what belongs to it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderElectArgs {
    /// Let one of several replicas work, the others stand by
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub leader_elect: bool,

    /// How long standbys wait after a renewal they saw before they take over
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: GoDuration,

    /// How long after its last renewal the leader goes on; less than the lease's duration
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: GoDuration,

    /// How often the leader renews and a standby looks
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: GoDuration,

    /// Kind of object that is the lock
    #[arg(long, value_name = "KIND", default_value = "leases", value_parser = ["leases"])]
    pub leader_elect_resource_lock: String,

    /// Name of the Lease. Not kube-controller-manager's: it goes on working beside this program
    #[arg(long, value_name = "NAME", default_value = "plumbline-controllers", value_parser = dns_name)]
    pub leader_elect_resource_name: String,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", value_parser = dns_name)]
    pub leader_elect_resource_namespace: String,
}

impl LeaderElectArgs {
    /// The election in which this replica takes part as `identity`; `None` when it is switched off.
    ///
    /// # Errors
    /// [`ArgsError::LeaderElect`] for times that could not keep two replicas apart.
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

/// A name that a namespace or a lease can have, roughly: the server knows the rest.
fn dns_name(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() <= 253 && bytes.iter().copied().all(fine) && ends(bytes.first()) && ends(bytes.last()) {
        return Ok(text.to_owned());
    }
    Err("a name consists of lower case letters, digits, '-' and '.', and begins and ends with a letter or digit".into())
}
