//! [`ApiServerBuilder`]: settings of a server, each optional.

use crate::audit::AuditLog;
use crate::clock::{Clock, epoch};
use crate::record::Origin;
use crate::registry::AdmissionPlugin;
use crate::server::{ApiServer, ApiServerConfig, ClientUsers, RecordMode};
use crate::store::HistoryLimits;
use crate::version::KubernetesVersion;

/// Builds an [`ApiServer`]; made by [`ApiServer::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "call `build` to create the server"]
pub struct ApiServerBuilder {
    clock: Option<Clock>,
    seed: u64,
    ids_by_object: bool,
    history: HistoryLimits,
    record: Option<RecordMode>,
    user_of_client: ClientUsers,
    disabled: Option<Vec<AdmissionPlugin>>,
    refuse_privileged: bool,
    kubernetes_version: KubernetesVersion,
    reported_version: Option<String>,
    legacy_apis: bool,
    audit: Option<AuditLog>,
    actor_name: Option<fn(&Origin) -> String>,
}

impl ApiServer {
    /// Returns a builder of a server with the settings of [`ApiServerConfig::new`].
    ///
    /// ```
    /// use plumbline_apiserver::clock::{self, Clock};
    /// use plumbline_apiserver::AdmissionPlugin;
    /// use plumbline_apiserver::{ApiServer, RecordMode};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder()
    ///         .clock(Clock::virtual_from(clock::epoch()))
    ///         .seed(7)
    ///         .record(RecordMode::Off)
    ///         .disable_plugin(AdmissionPlugin::TaintNodesByCondition)
    ///         .build();
    ///     assert_eq!(server.config().seed, 7);
    /// })
    /// # }
    /// ```
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }
}

impl ApiServerBuilder {
    /// Sets the clock behind creation timestamps, grace periods and watch timeouts. The default is virtual time that
    /// starts at [`epoch`]; a server with sockets needs [`Clock::wall`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the seed of uids, generated names and random faults; equal seeds give equal sequences. The default is 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Gives each object a sequence of uids and generated names of its own, so that they do not depend on the order of
    /// requests about other objects. The server remembers a number for each name and prefix.
    pub fn ids_by_object(mut self) -> Self {
        self.ids_by_object = true;
        self
    }

    /// Sets the number of log entries and bytes kept per resource for watches and lists at older resourceVersions.
    pub fn history(mut self, limits: HistoryLimits) -> Self {
        self.history = limits;
        self
    }

    /// Sets the amount of traffic recorded in the transcript. The default is [`RecordMode::All`].
    pub fn record(mut self, record: RecordMode) -> Self {
        self.record = Some(record);
        self
    }

    /// Authorizes requests as the user that `user_of` names for their client, so that the RBAC roles in the store apply
    /// to them. With `None` a request has the rights of its authenticated user, in process those of an administrator.
    ///
    /// ```
    /// use plumbline_apiserver::{ApiRequest, ApiServer, clock};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// clock::run_virtual(async {
    ///     let robot = |name: &str| (name == "robot").then(|| "system:serviceaccount:default:robot".to_owned());
    ///     let server = ApiServer::builder().user_of_client(move |client| robot(client.short_name())).build();
    ///     let mut list = ApiRequest::new(http::Method::GET, "/api/v1/nodes");
    ///     assert_eq!(server.handle(list.clone()).await.status, 200);
    ///     list.headers.insert(http::header::USER_AGENT, http::HeaderValue::from_static("robot/v1"));
    ///     assert_eq!(server.handle(list).await.status, 403);
    /// })
    /// # }
    /// ```
    pub fn user_of_client(mut self, user_of: impl Fn(&Origin) -> Option<String> + Send + Sync + 'static) -> Self {
        self.user_of_client = ClientUsers::new(user_of);
        self
    }

    /// Disables an admission plugin. By default all are enabled, except `ServiceAccount`.
    pub fn disable_plugin(mut self, plugin: AdmissionPlugin) -> Self {
        self.disabled.get_or_insert_with(AdmissionPlugin::disabled_by_default).push(plugin);
        self
    }

    /// Refuses privileged containers, as a kube-apiserver without `--allow-privileged` does. The default is to allow
    /// them, as kind and envtest do.
    pub fn refuse_privileged(mut self) -> Self {
        self.refuse_privileged = true;
        self
    }

    /// Sets the release of Kubernetes that the server behaves as.
    pub fn kubernetes_version(mut self, version: KubernetesVersion) -> Self {
        self.kubernetes_version = version;
        self
    }

    /// Sets the version to report at `/version` and for simulated nodes, such as `v1.36.2`, or with its commit
    /// `v1.36.2/HASH`. The default is the first one of the release.
    pub fn reported_version(mut self, version: impl Into<String>) -> Self {
        self.reported_version = Some(version.into());
        self
    }

    /// Serves versions that Kubernetes removed, such as `policy/v1beta1`, as views of the present ones, for clients
    /// that are older than the release.
    pub fn legacy_apis(mut self) -> Self {
        self.legacy_apis = true;
        self
    }

    /// Sets the destination of audit events. By default none are written.
    pub fn audit_log(mut self, log: AuditLog) -> Self {
        self.audit = Some(log);
        self
    }

    /// Sets the function that names the originators of entries in `/plumbline/transcript`. The default is
    /// [`Origin::short_name`].
    pub fn actor_name(mut self, name: fn(&Origin) -> String) -> Self {
        self.actor_name = Some(name);
        self
    }

    /// Creates the server, which has the four system namespaces.
    ///
    /// Call it inside the tokio runtime whose time the server is to follow, unless a clock was set there.
    pub fn build(self) -> ApiServer {
        let defaults = ApiServerConfig::new(self.clock.unwrap_or_else(|| Clock::virtual_from(epoch())));
        ApiServer::new(ApiServerConfig {
            seed: self.seed,
            ids_by_object: self.ids_by_object,
            history: self.history,
            record: self.record.unwrap_or(defaults.record),
            user_of_client: self.user_of_client,
            disabled: self.disabled.unwrap_or(defaults.disabled),
            allow_privileged: !self.refuse_privileged,
            control_plane: false,
            kubernetes_version: self.kubernetes_version,
            reported_version: self.reported_version,
            legacy_apis: self.legacy_apis,
            authority: None,
            audit: self.audit,
            actor_name: self.actor_name.unwrap_or(defaults.actor_name),
            own_paths: defaults.own_paths,
            recorded_names: defaults.recorded_names,
            clock: defaults.clock,
        })
    }
}
