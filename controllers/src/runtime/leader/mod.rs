//! Leader election by a Lease, as client-go's: one replica works, the others stand by with filled caches.
//!
//! The lease on the server decides who leads; [`Leadership`] tells, at the moment of each write, whether this process
//! can still be sure to lead. Timings and the record are upstream's, so `kubectl` and dashboards can read it. Stricter
//! than upstream: leadership ends `renew-deadline` after the last renewal was *sent* (upstream: after the first failed
//! renewal was), so with any timings it ends before another replica may take over.

mod record;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};

use self::record::LeaseAction;
use super::client::{ClientBuilder, Limits, names};
use super::clock::Clock;
use super::error::ApiError;
use super::leadership::Leadership;
use super::metrics::Metrics;
use super::recorder::{EventType, ObjectReference, Recorder};
use crate::api::hash::Fnv1a;

/// Standbys wait one retry period plus up to this many further ones, each replica its own time, as client-go's.
pub const JITTER_FACTOR: f64 = 1.2;

/// Settings of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Name of the lease.
    pub name: String,
    /// Namespace of the lease.
    pub namespace: String,
    /// The name of this replica in the lease; must be unique.
    pub identity: String,
    /// Timings of the lease.
    pub timing: Timing,
}

/// Timings of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time for which other replicas respect a lease that is not renewed.
    pub lease_duration: Duration,
    /// Time for which a leader may continue after its last renewal.
    pub renew_deadline: Duration,
    /// Interval between renewals of a leader, and between checks of a standby.
    pub retry_period: Duration,
}

/// kube-controller-manager's defaults.
impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Errors of timings that would allow two leaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Another replica could take over while the leader goes on.
    #[error("lease duration must be greater than renew deadline")]
    Duration,
    /// One late renewal would end the leadership.
    #[error("renew deadline must be greater than retry period x {JITTER_FACTOR}")]
    Deadline,
    /// The record counts in seconds.
    #[error("lease duration must be at least 1s and renew deadline and retry period greater than zero")]
    Zero,
}

impl Timing {
    /// Checks the timings as upstream does.
    ///
    /// # Errors
    /// [`TimingError`], in upstream's words.
    pub fn validate(&self) -> Result<(), TimingError> {
        if self.lease_duration < Duration::from_secs(1) || self.renew_deadline.is_zero() || self.retry_period.is_zero()
        {
            return Err(TimingError::Zero);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(TimingError::Duration);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(TimingError::Deadline);
        }
        Ok(())
    }
}

/// The reason why leadership ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// No renewal succeeded in time.
    #[error("the lease was not renewed within {}s", limit.as_secs_f64())]
    Unrenewed {
        /// The renew deadline.
        limit: Duration,
    },
    /// Another replica holds the lease.
    #[error("the lease is held by {holder}")]
    Taken {
        /// The other replica.
        holder: String,
    },
}

/// The leader election of one replica.
pub struct LeaderElector {
    election: Election,
    leases: Api<Lease>,
    clock: Clock,
    leadership: Leadership,
    metrics: Metrics,
    /// `None` after the last event: the writer of events ends when all recorders are dropped.
    recorder: Option<Recorder>,
    /// The lease as last read or written, and when its content last changed.
    observed: Option<(Lease, Duration)>,
    holding: bool,
    /// `true` if the server may have a lease of this replica: a write was sent, with any outcome.
    may_hold: bool,
    /// Time at which leadership ends unless the lease is renewed.
    until: Duration,
    tries: u64,
}

/// The result of an attempt to acquire or renew the lease.
enum TryAcquire {
    Holding,
    HeldBy(String),
    Failed(ApiError),
}

impl LeaderElector {
    /// Creates a candidate that uses the client `plain`.
    pub fn new(
        election: Election,
        plain: Client,
        clock: Clock,
        leadership: Leadership,
        metrics: Metrics,
        recorder: Recorder,
    ) -> Self {
        // The election has its own timing. Half of the deadline leaves time for a second attempt.
        let limits = Limits { qps: 0.0, request_timeout: election.timing.renew_deadline / 2, ..Limits::default() };
        let builder = ClientBuilder::new(names::LEADER_ELECTION, clock.clone(), limits);
        let client = builder.with_metrics(metrics.requests()).build(plain);
        let leases = Api::namespaced(client, &election.namespace);
        metrics.leader(&election.name, false);
        let observed = None;
        let until = Duration::ZERO;
        Self {
            election,
            leases,
            clock,
            leadership,
            metrics,
            recorder: Some(recorder),
            observed,
            holding: false,
            may_hold: false,
            until,
            tries: 0,
        }
    }

    /// Waits until this replica holds the lease.
    pub async fn acquire(&mut self) {
        tracing::info!(lease = self.lease(), identity = self.election.identity, "attempting to acquire leader lease");
        let mut holder = None;
        loop {
            let limit = self.election.timing.renew_deadline;
            match self.clock.clone().timeout(limit, self.try_once()).await {
                Ok(TryAcquire::Holding) => break,
                Ok(TryAcquire::HeldBy(now)) => {
                    if holder.as_ref() != Some(&now) {
                        tracing::info!(lease = self.lease(), holder = now, "standing by: another replica leads");
                    }
                    holder = Some(now);
                }
                Ok(TryAcquire::Failed(error)) => {
                    tracing::warn!(lease = self.lease(), %error, "unable to get or create the lease, trying again");
                }
                Err(elapsed) => tracing::warn!(lease = self.lease(), %elapsed, "unable to get the lease, trying again"),
            }
            let delay = self.standby_delay();
            self.clock.sleep(delay).await;
        }
        self.metrics.leader(&self.election.name, true);
        self.event("became leader");
        tracing::info!(lease = self.lease(), identity = self.election.identity, "acquired the lease, leading");
    }

    /// Renews the lease until that fails.
    pub async fn renew_until_lost(&mut self) -> LeaseLost {
        loop {
            self.clock.sleep(self.election.timing.retry_period).await;
            if let Err(lost) = self.renew().await {
                self.leadership.revoke();
                self.holding = false;
                self.metrics.leader(&self.election.name, false);
                tracing::error!(lease = self.lease(), why = %lost, "lost the lease, no further writes are sent");
                return lost;
            }
        }
    }

    /// Releases the lease, so that a standby need not wait for its expiry. Call it only after the last write has ended.
    pub async fn release(&mut self) {
        self.leadership.revoke();
        self.metrics.leader(&self.election.name, false);
        self.holding = false;
        if !std::mem::take(&mut self.may_hold) {
            return;
        }
        let limit = self.election.timing.renew_deadline;
        let released = self.clock.clone().timeout(limit, Box::pin(self.try_release())).await;
        match released.map_err(ApiError::from).flatten() {
            Ok(()) => tracing::info!(lease = self.lease(), "released the lease"),
            Err(error) => tracing::warn!(lease = self.lease(), %error, "unable to release the lease, it will expire"),
        }
    }

    /// Records the last event, that this replica stops leading, and drops the recorder.
    #[must_use]
    pub fn shut_down_events(mut self) -> Self {
        self.event("stopped leading");
        self.recorder = None;
        self
    }

    async fn renew(&mut self) -> Result<(), LeaseLost> {
        let Timing { renew_deadline: limit, retry_period, .. } = self.election.timing;
        loop {
            let left = self.until.saturating_sub(self.clock.monotonic());
            let tried =
                if left.is_zero() { None } else { self.clock.clone().timeout(left, self.try_once()).await.ok() };
            match tried {
                None => return Err(LeaseLost::Unrenewed { limit }),
                Some(TryAcquire::Holding) => return Ok(()),
                Some(TryAcquire::HeldBy(holder)) => return Err(LeaseLost::Taken { holder }),
                Some(TryAcquire::Failed(error)) => {
                    tracing::warn!(lease = self.lease(), %error, left_ms = left.as_millis(),
                        "unable to renew the lease");
                }
            }
            let left = self.until.saturating_sub(self.clock.monotonic());
            self.clock.sleep(retry_period.min(left)).await;
        }
    }

    async fn try_once(&mut self) -> TryAcquire {
        self.tries += 1;
        // The client's futures are large, and this one is nested in many others.
        match Box::pin(self.try_acquire_or_renew()).await {
            Ok(tried) => tried,
            Err(error) => TryAcquire::Failed(error),
        }
    }

    async fn try_acquire_or_renew(&mut self) -> Result<TryAcquire, ApiError> {
        if self.holding
            && let Some((lease, _)) = self.observed.clone()
        {
            // Usually no other replica has changed the lease: one request is enough.
            let spec = lease.spec.clone().unwrap_or_default();
            let sent = self.now();
            let spec = record::renewal(&spec, self.election.timing.lease_duration, sent.1);
            match self.replace_lease(lease, spec, sent).await {
                Ok(()) => return Ok(TryAcquire::Holding),
                Err(error) => {
                    tracing::debug!(lease = self.lease(), %error, "unable to renew with the cached lease, reading it");
                }
            }
            self.metrics.leader_slow_path(&self.election.name);
        }
        let observed = self.leases.get_opt(&self.election.name).await?;
        self.record_observed(observed);
        let sent = self.now();
        let (spec, unchanged_for) = match &self.observed {
            Some((lease, since)) => (lease.spec.as_ref(), sent.0.saturating_sub(*since)),
            None => (None, Duration::ZERO),
        };
        let Election { identity, timing, .. } = &self.election;
        match record::decide(spec, identity, unchanged_for, timing.lease_duration, sent.1) {
            LeaseAction::Wait { holder } => return Ok(TryAcquire::HeldBy(holder)),
            LeaseAction::Create(spec) => {
                let metadata = ObjectMeta { name: Some(self.election.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(spec) };
                self.may_hold = true;
                let lease = self.leases.create(&PostParams::default(), &lease).await?;
                self.record_held(lease, sent);
            }
            LeaseAction::Update(spec) => {
                let lease = self.observed.as_ref().map(|(lease, _)| lease.clone()).unwrap_or_default();
                self.replace_lease(lease, spec, sent).await?;
            }
        }
        Ok(TryAcquire::Holding)
    }

    /// Updates the lease on the condition that its version is still that of `lease`.
    async fn replace_lease(
        &mut self,
        mut lease: Lease,
        spec: LeaseSpec,
        sent: (Duration, Timestamp),
    ) -> Result<(), ApiError> {
        lease.spec = Some(spec);
        self.may_hold = true;
        let lease = self.leases.replace(&self.election.name, &PostParams::default(), &lease).await?;
        self.record_held(lease, sent);
        Ok(())
    }

    /// Releases the lease if it is still held. A renewal that was on its way may arrive between the read and the write:
    /// the release is then tried again, as in client-go 0.37 (kubernetes/kubernetes#137988).
    async fn try_release(&mut self) -> Result<(), ApiError> {
        loop {
            let Some(mut lease) = self.leases.get_opt(&self.election.name).await? else { return Ok(()) };
            let spec = lease.spec.clone().unwrap_or_default();
            if record::holder(&spec) != self.election.identity {
                return Ok(());
            }
            lease.spec = Some(record::release(&spec, self.clock.now()));
            match self.leases.replace(&self.election.name, &PostParams::default(), &lease).await.map_err(ApiError::from)
            {
                Err(error) if error.is_conflict() => {}
                replaced => return replaced.map(|_| ()),
            }
        }
    }

    fn record_held(&mut self, lease: Lease, sent: (Duration, Timestamp)) {
        let validity = self.election.timing.renew_deadline;
        self.leadership.renew(sent, validity);
        self.until = sent.0.saturating_add(validity);
        self.holding = true;
        self.observed = Some((lease, self.clock.monotonic()));
    }

    /// Records the server's lease, and the time if its content changed.
    fn record_observed(&mut self, lease: Option<Lease>) {
        let now = self.clock.monotonic();
        self.observed = lease.map(|lease| {
            let unchanged = self.observed.as_ref().filter(|(observed, _)| observed.spec == lease.spec);
            let since = unchanged.map_or(now, |(_, since)| *since);
            (lease, since)
        });
    }

    fn now(&self) -> (Duration, Timestamp) {
        let wall = self.clock.now();
        // The record has microsecond precision.
        (self.clock.monotonic(), wall.round(jiff::Unit::Microsecond).unwrap_or(wall))
    }

    /// Returns the delay until the next check of another replica's lease: different for each replica, but the same in
    /// every run.
    fn standby_delay(&self) -> Duration {
        let mut digest = Fnv1a::default();
        digest.write(self.election.identity.as_bytes());
        digest.write(&self.tries.to_le_bytes());
        let part = (digest.0 % 1000) as f64 / 1000.0;
        self.election.timing.retry_period.mul_f64(1.0 + part * JITTER_FACTOR)
    }

    fn event(&self, what: &str) {
        let Some(recorder) = &self.recorder else { return };
        let metadata = self.observed.as_ref().map(|(lease, _)| lease.metadata.clone()).unwrap_or_default();
        let about = ObjectReference {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: self.election.namespace.clone(),
            name: self.election.name.clone(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        };
        let message = format!("{} {what}", self.election.identity);
        recorder.event(about, EventType::Normal, "LeaderElection", message);
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }
}

#[cfg(test)]
mod tests;
