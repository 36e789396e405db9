//! The shared state of one server: store, registry, transcript, clock, fault rules and token signer.
//! The functions in `handlers` receive it as [`ApiServer`], a cheap handle.
//! See `staging/src/k8s.io/apiserver/pkg/server/genericapiserver.go`.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(feature = "controllers")]
use std::sync::OnceLock;
#[cfg(feature = "controllers")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard, RwLock};
#[cfg(feature = "listener")]
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::admission::AdmissionConfig;
use super::audit::AuditLog;
use super::authn::{Claims, TokenIssuer, UserInfo};
use super::decode_cache::DecodeCache;
use super::definition_index::DefinitionIndex;
#[cfg(feature = "controllers")]
use super::event_sink::EventSink;
use super::faults::Faults;
#[cfg(feature = "listener")]
use super::flow_control::FlowSchemas;
use super::idle_apply::IdleApplies;
use super::ids::IdGenerator;
use super::metrics::RequestCounters;
use super::outbound::Outbound;
use super::read_cache::ReadCache;
use super::registry::{AdmissionPlugin, ObjectLister, Registry, Resource, SelectableField};
use super::request::{ApiRequest, bearer_token};
use super::store::{Draft, HistoryLimits, KeyRange, ResourceId, SelectableValues, Store, StoredObject, key};
use crate::clock::Clock;
use crate::json::Value;
use crate::record::{Origin, RecordedNames, Transcript};
use crate::version::KubernetesVersion;
use crate::x509::CertificateAuthority;

/// The configuration of a server.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct ApiServerConfig {
    /// The clock behind creation timestamps, grace periods and watch timeouts.
    pub clock: Clock,
    /// The seed of uids and generated names; equal seeds give equal sequences.
    pub seed: u64,
    /// The number of log entries and bytes kept per resource for watches and lists at older resourceVersions.
    pub history: HistoryLimits,
    /// Each object has a sequence of uids and generated names of its own, so that they do not depend on the order of
    /// requests about other objects.
    pub ids_by_object: bool,
    /// The amount of traffic recorded in the transcript.
    pub record: RecordMode,
    /// The users as which the requests of some clients are authorized, so that the RBAC roles in the store apply to
    /// them. By default there are none: requests have the rights of their authenticated user.
    pub user_of_client: ClientUsers,
    /// Admission plugins that are disabled; by default `ServiceAccount`.
    pub disabled: Vec<AdmissionPlugin>,
    /// Allows privileged containers, as kind and envtest do; by default true. kube-apiserver's own default is false.
    pub allow_privileged: bool,
    /// Reports a scheduler and a controller manager as healthy in `componentstatuses`; by default none runs.
    pub control_plane: bool,
    /// The release of Kubernetes that the server behaves as.
    pub kubernetes_version: KubernetesVersion,
    /// The version to report at `/version` and for nodes, such as `v1.36.2`, or with its commit `v1.36.2/HASH`; that of
    /// the release by default.
    pub reported_version: Option<String>,
    /// Serves versions that Kubernetes removed, such as `policy/v1beta1`, as views of the present ones.
    pub legacy_apis: bool,
    /// The authority that signs the certificates of approved requests; by default one that is made from the seed.
    pub authority: Option<CertificateAuthority>,
    /// The audit log, if one is to be written.
    pub audit: Option<AuditLog>,
    /// Names the originators of entries in `/plumbline/transcript`; [`Origin::short_name`] by default.
    pub actor_name: fn(&Origin) -> String,
    /// Serves the paths under `/plumbline`, which only this server has. Without them a client finds what it finds at a
    /// kube-apiserver.
    pub own_paths: bool,
    /// Translates the names in the record; by default it has those that clients see.
    pub recorded_names: RecordedNames,
}

/// The users as which clients are authorized instead of those that they authenticate as, by the request's [`Origin`].
#[derive(Clone, Default)]
pub struct ClientUsers(Option<Arc<UserOfClient>>);

type UserOfClient = dyn Fn(&Origin) -> Option<String> + Send + Sync;

impl ClientUsers {
    /// Creates the users that `user_of` names. `None` leaves a request the rights of its authenticated user.
    pub fn new(user_of: impl Fn(&Origin) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(user_of)))
    }

    /// Returns the name of the user as which the requests of `origin` are authorized.
    pub(crate) fn user_of(&self, origin: &Origin) -> Option<String> {
        self.0.as_ref()?(origin)
    }
}

impl fmt::Debug for ClientUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "ClientUsers" } else { "ClientUsers(none)" })
    }
}

/// The amount of traffic that a server records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMode {
    /// All requests and changes with bodies and objects, for tests.
    All,
    /// The latest entries, up to about `bytes`; for servers that run for a long time.
    Recent {
        /// Size limit in bytes; when it is exceeded, the older half is dropped.
        bytes: usize,
    },
    /// No record; for load tests.
    Off,
}

impl ApiServerConfig {
    /// Returns the version that the server reports, such as `v1.36.0`.
    pub fn git_version(&self) -> &str {
        self.version_and_commit().split('/').next().unwrap_or_default()
    }

    /// Returns the version that the server reports, with the commit if one is set.
    fn version_and_commit(&self) -> &str {
        self.reported_version.as_deref().unwrap_or_else(|| self.kubernetes_version.git_version())
    }

    /// Returns the default configuration on `clock`.
    pub fn new(clock: Clock) -> Self {
        let history = HistoryLimits::default();
        let record = RecordMode::All;
        Self {
            clock,
            seed: 0,
            ids_by_object: false,
            history,
            record,
            user_of_client: ClientUsers::default(),
            disabled: AdmissionPlugin::disabled_by_default(),
            allow_privileged: true,
            control_plane: false,
            kubernetes_version: KubernetesVersion::default(),
            reported_version: None,
            legacy_apis: false,
            authority: None,
            audit: None,
            actor_name: |origin| origin.short_name().to_owned(),
            own_paths: true,
            recorded_names: RecordedNames::default(),
        }
    }
}

/// Largest number of resources that are not served of which the log tells.
const UNKNOWN_MAX: usize = 1000;

/// Largest number of connections into pods at one time.
#[cfg(feature = "listener")]
const SESSIONS_MAX: usize = 500;

/// A server. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    shared: Arc<ServerState>,
}

// No lock is held while what it guards is half changed by code that may panic.
impl UnwindSafe for ServerState {}
impl RefUnwindSafe for ServerState {}

#[derive(Debug)]
struct ServerState {
    config: ApiServerConfig,
    store: Store,
    transcript: Transcript,
    registry: RwLock<Arc<Registry>>,
    ids: Mutex<IdGenerator>,
    faults: Faults,
    recent: DecodeCache,
    idle_applies: IdleApplies,
    counters: RequestCounters,
    tokens: TokenIssuer,
    #[cfg(feature = "controllers")]
    authority: OnceLock<Option<CertificateAuthority>>,
    unknown: Mutex<BTreeSet<String>>,
    admission: ReadCache<Option<Arc<AdmissionConfig>>>,
    #[cfg(feature = "listener")]
    flow_schemas: ReadCache<Arc<FlowSchemas>>,
    #[cfg(feature = "listener")]
    sessions: Arc<Semaphore>,
    outbound: Outbound,
    definitions: DefinitionIndex,
    #[cfg(feature = "controllers")]
    events: EventSink,
    /// Claims are bound to volumes.
    #[cfg(feature = "controllers")]
    binds_volumes: AtomicBool,
}

impl ApiServer {
    /// Creates a server that has the four system namespaces.
    pub fn new(config: ApiServerConfig) -> Self {
        let ids = IdGenerator::new(config.seed);
        let transcript = match config.record {
            RecordMode::Recent { bytes } => Transcript::of_recent(bytes),
            RecordMode::All | RecordMode::Off => Transcript::new(),
        };
        let registry = Registry::shared(config.kubernetes_version, config.version_and_commit(), Registry::builtin);
        let registry =
            if config.legacy_apis { Arc::new(Registry::clone(&registry).with_legacy_apis()) } else { registry };
        let shared = ServerState {
            store: Store::new(config.history),
            transcript: transcript.with_names(config.recorded_names.clone()),
            registry: RwLock::new(registry),
            ids: Mutex::new(if config.ids_by_object { ids.by_object() } else { ids }),
            faults: Faults::new(config.seed),
            recent: DecodeCache::default(),
            idle_applies: IdleApplies::default(),
            counters: RequestCounters::default(),
            tokens: TokenIssuer::new(&config.seed.to_be_bytes()),
            #[cfg(feature = "controllers")]
            authority: OnceLock::new(),
            unknown: Mutex::default(),
            admission: ReadCache::default(),
            #[cfg(feature = "listener")]
            flow_schemas: ReadCache::default(),
            #[cfg(feature = "listener")]
            sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
            outbound: Outbound::default(),
            definitions: DefinitionIndex::default(),
            #[cfg(feature = "controllers")]
            events: EventSink::default(),
            #[cfg(feature = "controllers")]
            binds_volumes: AtomicBool::new(false),
            config,
        };
        let server = Self { shared: Arc::new(shared) };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            server.seed_namespace(name);
        }
        server
    }

    /// Returns the server's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.config.clock
    }

    /// Returns the server's configuration.
    pub fn config(&self) -> &ApiServerConfig {
        &self.shared.config
    }

    /// Returns the latest resourceVersion.
    pub fn revision(&self) -> u64 {
        self.shared.store.revision()
    }

    /// Returns the resources that have objects.
    pub fn stored_resources(&self) -> Vec<ResourceId> {
        self.shared.store.resources()
    }

    /// Returns the object store.
    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns the record of requests and changes.
    pub fn transcript(&self) -> &Transcript {
        &self.shared.transcript
    }

    /// Returns the fault injection rules.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Answers the requests to a webhook in this process. `url` is that of its configuration, or for a service
    /// `https://NAME.NAMESPACE.svc:PORT/PATH`. The handler gets the `AdmissionReview` or `ConversionReview` and returns
    /// it with a `response`.
    ///
    /// ```
    /// use plumbline_apiserver::{ApiServer, clock};
    /// use serde_json::json;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     server.handle_webhook("https://labels.default.svc:443/deny", |review| async move {
    ///         let uid = review["request"]["uid"].clone();
    ///         json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    ///             "response": {"uid": uid, "allowed": false, "status": {"message": "no"}}})
    ///     });
    /// })
    /// # }
    /// ```
    pub fn handle_webhook<F, A>(&self, url: &str, handler: F)
    where
        F: Fn(serde_json::Value) -> A + Send + Sync + 'static,
        A: Future<Output = serde_json::Value> + Send + 'static,
    {
        self.shared.outbound.register(url, Arc::new(move |review| Box::pin(handler(review))));
    }

    /// Returns the client of webhooks and aggregated API servers.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.shared.outbound
    }

    /// Returns where loops record events.
    #[cfg(feature = "controllers")]
    pub(crate) fn events(&self) -> &EventSink {
        &self.shared.events
    }

    /// Notes that a loop binds claims to volumes, so that pods wait for their claims.
    #[cfg(feature = "controllers")]
    pub(crate) fn note_volume_binding(&self) {
        self.shared.binds_volumes.store(true, Ordering::Relaxed);
    }

    /// Returns true if a loop binds claims to volumes.
    #[cfg(feature = "controllers")]
    pub(crate) fn binds_volumes(&self) -> bool {
        self.shared.binds_volumes.load(Ordering::Relaxed)
    }

    /// Returns what is known of the stored definitions.
    pub(crate) fn definitions(&self) -> &DefinitionIndex {
        &self.shared.definitions
    }

    /// Returns the configured webhooks and policies; `None` if there are none.
    pub(crate) fn admission(&self) -> Option<Arc<AdmissionConfig>> {
        self.shared.admission.get(self.shared.store.admission_writes(), || {
            let config = AdmissionConfig::read(self);
            (!config.is_empty()).then(|| Arc::new(config))
        })
    }

    /// Returns the flow schemas.
    #[cfg(feature = "listener")]
    pub(crate) fn flow_schemas(&self) -> Arc<FlowSchemas> {
        self.shared.flow_schemas.get(self.shared.store.flow_writes(), || Arc::new(FlowSchemas::read(self)))
    }

    /// Counts one more connection into a pod, until the permit is dropped; `None` if there are too many.
    #[cfg(feature = "listener")]
    pub(crate) fn open_session(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.sessions.clone().try_acquire_owned().ok()
    }

    /// Returns the request counters.
    pub(crate) fn counters(&self) -> &RequestCounters {
        &self.shared.counters
    }

    /// Returns true if a resource that is not served is asked for the first time. Of many, only the first are known.
    pub(crate) fn is_first_unknown(&self, name: &str) -> bool {
        let mut known = self.shared.unknown.lock();
        known.len() < UNKNOWN_MAX && known.insert(name.to_owned())
    }

    /// Returns the authority that signs certificates; `None` if its key does not work.
    #[cfg(feature = "controllers")]
    pub(crate) fn authority(&self) -> Option<CertificateAuthority> {
        let made = || CertificateAuthority::of_seed(self.config().seed, self.clock().now()).ok();
        self.config().authority.clone().or_else(|| self.shared.authority.get_or_init(made).clone())
    }

    /// Returns the signer and verifier of service account tokens.
    pub(crate) fn tokens(&self) -> &TokenIssuer {
        &self.shared.tokens
    }

    /// Returns the claims of a service account token while it is valid: it has not expired, and the account and the
    /// object that it is bound to still exist with the same uid.
    pub(crate) fn valid_token(&self, token: &str) -> Option<Claims> {
        let claims = self.shared.tokens.read(token)?;
        (self.clock().now().as_second() < claims.expires && self.are_present(&claims)).then_some(claims)
    }

    /// Returns true if the account of a token and the object that it is bound to exist with the same uid.
    fn are_present(&self, claims: &Claims) -> bool {
        let exists = |resource: &str, namespace: &str, name: &str, uid: &str| {
            self.get(&ResourceId::new("", resource), namespace, name).is_some_and(|found| found.uid() == uid)
        };
        let bound = claims.bound.as_ref().is_none_or(|(kind, name, uid)| match kind.as_str() {
            "pod" => exists("pods", &claims.namespace, name, uid),
            "secret" => exists("secrets", &claims.namespace, name, uid),
            _ => exists("nodes", "", name, uid),
        });
        bound && exists("serviceaccounts", &claims.namespace, &claims.account, &claims.uid)
    }

    /// Returns false for a request with the token of an account that is gone, or with one for another audience or of
    /// another server. The listener has checked other credentials. Needs no clock.
    pub(crate) fn holds_present_token(&self, request: &ApiRequest) -> bool {
        let token = token_of(request);
        request.certificate.is_some()
            || !token.contains('.')
            || self.shared.tokens.read(token).is_some_and(|claims| claims.is_for_server() && self.are_present(&claims))
    }

    /// Returns true if this server signed the service account token, which may have expired. Needs no clock.
    #[must_use]
    pub fn has_signed(&self, token: &str) -> bool {
        self.shared.tokens.read(token).is_some()
    }

    /// Returns the user of a request with these headers. The listener has authenticated socket requests before; an
    /// in-process request without a token runs as administrator.
    pub(crate) fn user_of(&self, request: &ApiRequest) -> Arc<UserInfo> {
        static ADMINISTRATOR: LazyLock<Arc<UserInfo>> = LazyLock::new(|| UserInfo::administrator().into());
        if request.anonymous {
            return UserInfo::anonymous().into();
        }
        if let Some(certificate) = &request.certificate {
            return certificate.0.clone();
        }
        let token = token_of(request);
        // Expiry is not checked again: a token that expires during the request must not turn its user into the
        // administrator.
        let claims = if token.contains('.') { self.shared.tokens.read(token) } else { None };
        claims.map_or_else(|| ADMINISTRATOR.clone(), |claims| claims.user().into())
    }

    /// Returns the cache of recently written objects in decoded form.
    pub(crate) fn decode_cache(&self) -> &DecodeCache {
        &self.shared.recent
    }

    /// Returns a stored object in decoded form, from the cache if possible.
    #[cfg(feature = "controllers")]
    pub(crate) fn decoded(&self, stored: &StoredObject) -> Value {
        Value::clone(&self.decode_cache().get(stored))
    }

    /// Returns the cache of server-side applies that changed nothing.
    pub(crate) fn idle_applies(&self) -> &IdleApplies {
        &self.shared.idle_applies
    }

    /// Returns the resources that are served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.shared.registry.read().clone()
    }

    /// Changes the set of served resources, as custom resource definitions are added and removed.
    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.shared.registry.write();
        change(Arc::make_mut(&mut registry));
    }

    /// Locks the generator of uids and names.
    pub(crate) fn ids(&self) -> MutexGuard<'_, IdGenerator> {
        self.shared.ids.lock()
    }

    /// Returns the object under `namespace` (empty for cluster-scoped resources) and `name`.
    pub fn get(&self, resource: &ResourceId, namespace: &str, name: &str) -> Option<Arc<StoredObject>> {
        self.shared.store.get(resource, &key(namespace, name))
    }

    /// Returns all objects of a resource in key order; `None` selects every namespace.
    pub fn list(&self, resource: &ResourceId, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        self.shared.store.list(resource, KeyRange { namespace, ..KeyRange::default() }).0
    }

    /// Compacts the log up to `revision`, like etcd's compaction: watches and lists that need older state get 410.
    pub fn compact(&self, revision: u64) {
        self.shared.store.compact(revision);
    }
}

/// Returns the bearer token of a request.
fn token_of(request: &ApiRequest) -> &str {
    bearer_token(&request.headers).unwrap_or_default()
}

/// Returns the storage location of a resource's objects.
pub(crate) fn storage_id(kind: &Resource) -> ResourceId {
    ResourceId::new(&kind.storage.group, &kind.storage.resource)
}

/// Encodes `object`, which is in the form of `kind`'s version, for the store.
pub(crate) fn draft(kind: &Resource, object: Value) -> Draft {
    draft_and_stored(kind, object).0
}

/// Like [`draft`]; also returns the object in its storage version.
pub(crate) fn draft_and_stored(kind: &Resource, object: Value) -> (Draft, Value) {
    let mut stored = kind.to_storage(object);
    let value_of = |field: &SelectableField| (field.label.clone(), field.value_in(&stored).into_owned());
    let fields: SelectableValues = kind.selectable.iter().map(value_of).collect();
    // A new object has no resourceVersion yet; adding it here saves the encoder a copy of all metadata.
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("resourceVersion").or_insert(Value::Null);
    }
    (Draft::new(&stored, fields), stored)
}

impl ObjectLister for ApiServer {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        ApiServer::get(self, &ResourceId::new(group, resource), namespace, name).map(|stored| stored.value())
    }

    fn label(&self, group: &str, resource: &str, namespace: &str, name: &str, label: &str) -> Option<String> {
        let stored = ApiServer::get(self, &ResourceId::new(group, resource), namespace, name)?;
        stored.label(label).map(str::to_owned)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        self.list_holding(group, resource, namespace, "")
    }

    fn list_holding(&self, group: &str, resource: &str, namespace: &str, text: &str) -> Vec<Value> {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let stored = ApiServer::list(self, &ResourceId::new(group, resource), namespace);
        let holding = stored.iter().filter(|stored| memchr::memmem::find(&stored.bytes(), text.as_bytes()).is_some());
        holding.map(|stored| stored.value()).collect()
    }

    fn allows_privileged(&self) -> bool {
        self.config().allow_privileged
    }

    fn admits_by(&self, plugin: AdmissionPlugin) -> bool {
        !self.config().disabled.contains(&plugin)
    }
}
