//! The parts of a world, and how they start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use plumbline::fixture::Controller;
use plumbline::time::Clock;
use plumbline::transcript::{AgentRules, Agents, InProcessEndpoint};
use plumbline_apiserver::kubelet::{self, KubeletOptions};
use plumbline_apiserver::{
    AdmissionPlugin, ApiServer, ApiServerConfig, AuditLog, CertificateAuthority, KubernetesVersion, RecordMode,
    api_services, bootstrap, certificate_signer, compaction, endpoint_mirroring, endpoints, event_ttl, events,
    garbage_collector, node_lifecycle, pod_autoscaler, policy_status, quota_usage, service_accounts, usage_metrics,
    volumes, workloads,
};
use serde_json::Value;
use tokio::task::JoinSet;

use super::error::WorldError;
use super::fault_rules::{self, ServedFault};
use super::state::WorldState;
use crate::cluster::Access;
use crate::guest;
use crate::subject::in_process::InProcess;
use crate::subject::{Launch, Running, Subject as _};

/// The clock of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockMode {
    /// The time of the machine.
    #[default]
    Wall,
    /// Time moves only by `POST /plumbline/clock`.
    Manual,
}

/// A loop of the controller manager that runs beside the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum ControllerLoop {
    /// Delete objects whose owners are gone.
    Gc,
    /// Empty and remove namespaces that are being deleted.
    Namespaces,
    /// Create the pods of deployments, replica sets, stateful sets and daemon sets, and update their status.
    Workloads,
    /// Create the pods of jobs and the jobs of cron jobs, update their status, and remove finished ones.
    Jobs,
    /// Write the usage of resource quotas.
    Quotas,
    /// Write endpoints and endpoint slices of services with selectors.
    Endpoints,
    /// Give each namespace its service account `default` and the config map `kube-root-ca.crt`.
    Accounts,
    /// Write type errors of validating admission policies into their status.
    Policies,
    /// Bind claims to volumes, make volumes of kind's class `standard`, let deleted ones go once they are not used.
    Volumes,
    /// Taint nodes by their conditions and when they are cordoned, and report nodes that send no heartbeats.
    NodeLifecycle,
    /// Sign approved certificate signing requests, approve those of kubelets, remove old ones.
    Certificates,
    /// Write the events of pods, workloads, jobs and claims.
    Events,
    /// No loop.
    None,
}

impl ControllerLoop {
    /// All loops.
    pub const ALL: [Self; 12] = [
        Self::Gc,
        Self::Namespaces,
        Self::Workloads,
        Self::Jobs,
        Self::Quotas,
        Self::Endpoints,
        Self::Accounts,
        Self::Policies,
        Self::Volumes,
        Self::NodeLifecycle,
        Self::Certificates,
        Self::Events,
    ];
}

/// Returns the begin of the second.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The parts of a world. Each world of a listener is made from it.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// The clock.
    pub clock: ClockMode,
    /// The amount of history in the transcript.
    pub record: RecordMode,
    /// The release to behave as.
    pub kubernetes_version: KubernetesVersion,
    /// The version to report; that of the release by default.
    pub reported_version: Option<String>,
    /// Versions that Kubernetes removed are served.
    pub legacy_apis: bool,
    /// Admission plugins that are disabled.
    pub disabled: Vec<AdmissionPlugin>,
    /// Privileged containers are allowed.
    pub allow_privileged: bool,
    /// The audit log, if one is written. All worlds of a listener share it.
    pub audit: Option<AuditLog>,
    /// Objects that exist at the start.
    pub seeds: Vec<Value>,
    /// Address in the default objects, such as the service `kubernetes`; `None` for a world without default objects.
    pub address: Option<SocketAddr>,
    /// The certificate authority of the listener, in PEM; `None` for plain HTTP.
    pub authority: Option<String>,
    /// The authority of the listener, which signs certificates; `None` for plain HTTP.
    pub signer: Option<CertificateAuthority>,
    /// Fault rules that are armed at the start.
    pub faults: Vec<ServedFault>,
    /// Loops of the controller manager.
    pub loops: Vec<ControllerLoop>,
    /// Delay of garbage collection and namespace deletion after a deletion.
    pub loop_delay: Duration,
    /// Kubelets and scheduler, if they are simulated.
    pub kubelet: Option<KubeletOptions>,
    /// The API `metrics.k8s.io` is served.
    pub metrics: bool,
    /// Controllers of `plumbline-controllers` that run inside.
    pub controllers: Vec<Controller>,
}

impl WorldSpec {
    /// Creates the API server with the initial objects, or with those of `state`. Call this in the runtime whose time
    /// the world follows.
    ///
    /// # Errors
    ///
    /// Returns the object that the server refuses, with the reason.
    pub(super) fn server(&self, now: Timestamp, state: Option<&WorldState>) -> Result<ApiServer, WorldError> {
        let clock = match self.clock {
            ClockMode::Wall => guest::system_clock(),
            // Begins at a whole second, because objects' times have no fractions.
            ClockMode::Manual => Clock::virtual_from(state.map_or_else(|| whole_second(now), |state| state.time)),
        };
        let mut config = ApiServerConfig::new(clock);
        config.record = self.record;
        self.configure(&mut config);
        config.authority.clone_from(&self.signer);
        config.audit.clone_from(&self.audit);
        let server = ApiServer::new(config);
        match state {
            Some(state) => state.restore(&server)?,
            None => self.seed(&server)?,
        }
        // After the definitions, whose resources they can name.
        fault_rules::arm(&server, &self.faults)?;
        Ok(server)
    }

    /// Sets the release that the server behaves as, and the objects that it admits.
    pub(crate) fn configure(&self, config: &mut ApiServerConfig) {
        config.kubernetes_version = self.kubernetes_version;
        config.reported_version.clone_from(&self.reported_version);
        config.legacy_apis = self.legacy_apis;
        config.disabled.clone_from(&self.disabled);
        config.allow_privileged = self.allow_privileged;
        config.control_plane = self.kubelet.is_some() && self.loops.contains(&ControllerLoop::Workloads);
    }

    fn seed(&self, server: &ApiServer) -> Result<(), WorldError> {
        server.seed_as_created(self.seeds.iter().cloned()).map_err(WorldError::Seed)?;
        let Some(address) = self.address else { return Ok(()) };
        let mut objects = bootstrap::objects(address, server.clock().now());
        objects.extend(self.authority.as_deref().map(bootstrap::client_authority));
        server.seed(objects).map_err(WorldError::DefaultObjects)
    }

    /// Starts the loops and kubelets in the present runtime; dropping the set ends them.
    pub(crate) fn start_loops(&self, server: &ApiServer) -> JoinSet<()> {
        let mut running = JoinSet::new();
        // Part of the server, not of the controller manager.
        running.spawn(event_ttl::expire_events(server.clone()));
        running.spawn(compaction::compact_periodically(server.clone()));
        running.spawn(api_services::publish_api_services(server.clone()));
        for wanted in &self.loops {
            match wanted {
                ControllerLoop::Gc => {
                    running.spawn(garbage_collector::collect_garbage(server.clone(), self.loop_delay))
                }
                ControllerLoop::Namespaces => {
                    running.spawn(garbage_collector::terminate_namespaces(server.clone(), self.loop_delay))
                }
                ControllerLoop::Workloads => {
                    running.spawn(pod_autoscaler::scale_horizontally(server.clone()));
                    running.spawn(workloads::run_workload_controllers(server.clone()))
                }
                ControllerLoop::Jobs => running.spawn(workloads::run_job_controllers(server.clone())),
                ControllerLoop::Quotas => running.spawn(quota_usage::publish_quota_usage(server.clone())),
                ControllerLoop::Endpoints => {
                    running.spawn(endpoint_mirroring::mirror_endpoints(server.clone()));
                    running.spawn(endpoints::publish_endpoints(server.clone()))
                }
                ControllerLoop::Accounts => {
                    let authority = self.authority.clone();
                    running.spawn(service_accounts::publish_service_accounts(server.clone(), authority))
                }
                ControllerLoop::Policies => running.spawn(policy_status::publish_policy_status(server.clone())),
                ControllerLoop::Volumes => {
                    running.spawn(volumes::bind_volumes(server.clone()));
                    running.spawn(volumes::create_pod_claims(server.clone()));
                    running.spawn(volumes::release_volumes(server.clone()))
                }
                ControllerLoop::NodeLifecycle => running.spawn(node_lifecycle::watch_node_health(server.clone())),
                ControllerLoop::Certificates => running.spawn(certificate_signer::sign_certificates(server.clone())),
                ControllerLoop::Events => running.spawn(events::publish_events(server.clone())),
                ControllerLoop::None => continue,
            };
        }
        if self.metrics {
            running.spawn(usage_metrics::publish_usage(server.clone()));
        }
        if let Some(options) = &self.kubelet {
            running.spawn(kubelet::run(server.clone(), options.clone()));
        }
        running
    }

    /// Starts the controllers in the present runtime; `None` if the world has none.
    ///
    /// # Errors
    ///
    /// Returns the reason why they do not start.
    pub(super) fn launch_controllers(&self, server: &ApiServer) -> Result<Option<Box<dyn Running>>, WorldError> {
        if self.controllers.is_empty() {
            return Ok(None);
        }
        // One process has them all, so there is nothing to elect.
        let mut flags = BTreeMap::from([("leader-elect".to_owned(), "false".to_owned())]);
        if self.kubernetes_version != KubernetesVersion::V1_36 {
            // The default of upstream's flag, which 1.36 does not have.
            flags.insert("concurrent-disruption-syncs".to_owned(), "1".to_owned());
        }
        let agents = Agents::new(AgentRules::default(), &self.controllers);
        let endpoint = InProcessEndpoint::new(server.clone(), agents);
        let access = Access::InProcess(&endpoint);
        let launch =
            Launch { controllers: &self.controllers, flags: &flags, replicas: 1, access, clock: server.clock() };
        Ok(Some(InProcess.launch(&launch)?))
    }
}
