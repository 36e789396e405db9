//! Connects handlers to admission by webhooks and policies.
//! See `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/admission.go`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::future::BoxFuture;

use super::request_scope::RequestScope;
use super::versions;
use super::{authorization, body};
use crate::admission::{self, AdmissionConfig, AdmissionHost, AdmissionOperation, Attributes, Gvk, Gvr};
use crate::clock::Clock;
use crate::expressions::AccessReviewer;
use crate::go_duration::go_duration;
use crate::json::fields::{is_empty_value, str_field};
use crate::json::{Map, Value, json};
use crate::managedfields::ManagedEntries;
use crate::metadata;
use crate::outbound::Outbound;
use crate::registry::{ObjectLister, Registry, Resource};
use crate::request::{DeleteOptions, Propagation};
use crate::schema::{self, Schema};
use crate::status::{NumberError, Status};
use crate::store::StoredObject;
use crate::subresources::scale;

/// The most time that a request takes: `requestTimeoutUpperBound` in
/// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go`.
const REQUEST_TIME: Duration = Duration::from_secs(34);

/// The schema of the options of connections, which keeps all fields.
static OPEN: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let open = Schema::from_structural(None, true);
    Arc::new(open.expect("a schema that allows everything is structural"))
});

/// The admission of one request.
pub(super) struct Admission<'s> {
    scope: &'s RequestScope<'s>,
    config: Arc<AdmissionConfig>,
    operation: AdmissionOperation,
    old: Option<Value>,
    options: Value,
    dry_run: bool,
}

impl<'s> Admission<'s> {
    /// Returns the admission of a request; `None` if nothing is configured.
    pub(super) fn of(
        scope: &'s RequestScope<'_>,
        operation: AdmissionOperation,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Option<Self> {
        let config = scope.server.admission()?;
        let options = match operation {
            AdmissionOperation::Update => write_options(scope, "UpdateOptions"),
            AdmissionOperation::Create => write_options(scope, "CreateOptions"),
            AdmissionOperation::Delete | AdmissionOperation::Connect => Value::Null,
        };
        Some(Self { scope, config, operation, old: old.cloned(), options, dry_run })
    }

    /// Returns the admission of a deletion; `None` if nothing is configured.
    async fn of_deletion(
        scope: &'s RequestScope<'_>,
        stored: &StoredObject,
        options: &DeleteOptions,
    ) -> Result<Option<Self>, Status> {
        let Some(config) = scope.server.admission() else { return Ok(None) };
        let old = Arc::unwrap_or_clone(scope.current_value(stored).await?);
        Ok(Some(Self {
            scope,
            config,
            operation: AdmissionOperation::Delete,
            old: Some(old),
            options: delete_options(options),
            dry_run: options.dry_run,
        }))
    }

    /// Runs mutating policies and webhooks; returns the object that they make.
    pub(super) fn mutate(&self, object: Value) -> BoxFuture<'_, Result<Value, Status>> {
        Box::pin(self.in_time(self.run_mutation(object)))
    }

    /// Runs a part of admission until the time of the request is over: `FinishRequest` in
    /// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/finisher/finisher.go`.
    async fn in_time<T>(&self, part: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let Some(left) = self.time_left() else { return part.await };
        let timed_out = "request did not complete within requested timeout - context deadline exceeded";
        let result = self.scope.server.clock().timeout(left, part).await;
        result.unwrap_or_else(|| Err(Status::timeout(timed_out, 0)))
    }

    /// Returns the time that the request has left; connections may take longer.
    fn time_left(&self) -> Option<Duration> {
        if self.operation == AdmissionOperation::Connect {
            return None;
        }
        let asked = self.scope.query.get("timeout").and_then(go_duration).and_then(|nanos| u64::try_from(nanos).ok());
        let asked = asked.filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        let most = asked.map_or(REQUEST_TIME, |asked| asked.min(REQUEST_TIME));
        let passed = self.scope.server.clock().elapsed().saturating_sub(self.scope.parsed.received);
        Some(most.saturating_sub(passed))
    }

    async fn run_mutation(&self, object: Value) -> Result<Value, Status> {
        let shown = self.shown(&object)?;
        let mut attributes = self.attributes(Some(shown.clone()))?;
        admission::mutate(self, &self.config, &mut attributes).await?;
        if let Some(changed) = &mut attributes.object {
            self.keep_managed_fields(changed, &shown);
        }
        match attributes.object {
            Some(changed) if changed != shown && self.is_scale() => {
                let mut object = object;
                scale::apply(&mut object, &changed, self.scope.scale_paths().as_ref())?;
                Ok(object)
            }
            Some(changed) if self.scope.kind.is_unstructured() && !self.is_scale() => {
                Ok(self.scope.schema().convert(&changed).map_or(changed, |pruned| pruned.value))
            }
            Some(changed) if !self.is_scale() => Ok(changed),
            _ => Ok(object),
        }
    }

    /// Restores the managed fields of an object if admission left none that can be read:
    /// `managedFieldsValidatingAdmissionController` in
    /// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/admission.go`.
    fn keep_managed_fields(&self, changed: &mut Value, before: &Value) {
        let Some(after) = changed.pointer("/metadata/managedFields") else { return };
        let read = ManagedEntries::read(after.clone());
        let is_empty = is_empty_value(Some(after));
        let fields = metadata::fields_mut(changed);
        let Err(why) = read else {
            if is_empty {
                fields.remove("managedFields");
            }
            return;
        };
        match before.pointer("/metadata/managedFields") {
            Some(before) => fields.insert("managedFields", before.clone()),
            None => fields.remove("managedFields"),
        };
        self.scope.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: {why}"
        ));
    }

    /// Runs validating policies and webhooks.
    pub(super) fn validate<'v>(&'v self, object: Option<&'v Value>) -> BoxFuture<'v, Result<(), Status>> {
        Box::pin(self.in_time(self.run_validation(object)))
    }

    async fn run_validation(&self, object: Option<&Value>) -> Result<(), Status> {
        let attributes = self.attributes(object.map(|object| self.shown(object)).transpose()?)?;
        admission::validate(self, &self.config, &attributes).await
    }

    /// Runs all of admission for an object that is not stored.
    async fn run_all(&self, object: Option<Value>) -> Result<(), Status> {
        let mut attributes = self.attributes(object)?;
        admission::mutate(self, &self.config, &mut attributes).await?;
        admission::validate(self, &self.config, &attributes).await
    }

    fn is_scale(&self) -> bool {
        self.scope.path.subresource == "scale"
    }

    /// Returns an object as admission sees it: for `scale`, the Scale.
    fn shown(&self, object: &Value) -> Result<Value, Status> {
        if !self.is_scale() {
            return Ok(object.clone());
        }
        let scale = scale::scale_of(object, self.scope.scale_paths().as_ref());
        scale.map_err(|error| Status::untyped_error(error.to_string()))
    }

    fn attributes(&self, object: Option<Value>) -> Result<Attributes, Status> {
        let scope = self.scope;
        let path = &self.scope.path;
        let own = scope.kind.subresource(&path.subresource).filter(|sub| !sub.version.is_empty());
        let kind = if let Some(sub) = own {
            Gvk { group: sub.group.to_string(), version: sub.version.to_string(), kind: sub.kind.to_string() }
        } else {
            let kind = scope.kind.subresource(&path.subresource).map_or(&scope.kind.kind, |sub| &sub.kind);
            Gvk { group: path.group.clone(), version: path.version.clone(), kind: kind.to_string() }
        };
        let old = self.old.as_ref().map(|old| self.shown(old)).transpose()?;
        // The objects of a collection that is deleted are admitted without their names.
        let name = match &object {
            Some(object) if path.name.is_empty() => metadata::name(object).to_owned(),
            _ => path.name.clone(),
        };
        let is_namespace = path.group.is_empty() && path.resource == "namespaces";
        let namespace = if is_namespace { name.clone() } else { self.namespace(old.as_ref()) };
        Ok(Attributes {
            operation: self.operation,
            kind,
            resource: Gvr { group: path.group.clone(), version: path.version.clone(), resource: path.resource.clone() },
            subresource: path.subresource.clone(),
            name,
            namespace,
            user: scope.parsed.user_info(),
            dry_run: self.dry_run,
            options: self.options.clone(),
            object,
            old,
        })
    }

    /// Returns the namespace of the path, or of an object that is deleted with others of all namespaces.
    fn namespace(&self, old: Option<&Value>) -> String {
        let path = &self.scope.path.namespace;
        if path.is_empty() { old.map(metadata::namespace).unwrap_or_default().to_owned() } else { path.clone() }
    }
}

/// Runs all of admission for a subresource whose body is not stored, such as an eviction.
pub(super) async fn admit_body(scope: &RequestScope<'_>, body: Value, dry_run: bool) -> Result<Value, Status> {
    let Some(admission) = Admission::of(scope, AdmissionOperation::Create, None, dry_run) else { return Ok(body) };
    let body = admission.mutate(body).await?;
    admission.validate(Some(&body)).await?;
    Ok(body)
}

/// Runs all of admission for the deletion of an object.
pub(super) async fn admit_deletion(
    scope: &RequestScope<'_>,
    stored: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), Status> {
    match Admission::of_deletion(scope, stored, options).await? {
        Some(admission) => Box::pin(admission.in_time(admission.run_all(None))).await,
        None => Ok(()),
    }
}

/// Runs all of admission for a connection to a pod, a node or a service, whose options are in path and query.
///
/// # Errors
/// The options are malformed, or a webhook or policy refuses them.
pub(super) async fn admit_connection(scope: &RequestScope<'_>) -> Result<(), Status> {
    let options = connect_options(scope)?;
    let Some(admission) = Admission::of(scope, AdmissionOperation::Connect, None, false) else { return Ok(()) };
    Box::pin(admission.run_all(Some(options))).await
}

/// Returns the options of a connection: `getRequestOptions` in
/// `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go`.
fn connect_options(scope: &RequestScope<'_>) -> Result<Value, Status> {
    let subresource = &*scope.path.subresource;
    let kind = scope.kind.subresource(subresource).map_or("", |sub| &*sub.kind);
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    match subresource {
        "proxy" => {
            if !scope.path.rest.is_empty() {
                let end = if scope.request.path.ends_with('/') { "/" } else { "" };
                options["path"] = format!("/{}{end}", scope.path.rest.join("/")).into();
            }
            return Ok(options);
        }
        "portforward" => {
            let ports = ports(scope)?;
            if !ports.is_empty() {
                options["ports"] = json!(ports);
            }
            return Ok(options);
        }
        _ => {}
    }
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if scope.query.flag(flag) == Some(true) {
            options[flag] = true.into();
        }
    }
    if let Some(container) = scope.query.get("container").filter(|container| !container.is_empty()) {
        options["container"] = container.into();
    }
    let command: Vec<&str> = scope.query.all("command").collect();
    if !command.is_empty() && subresource == "exec" {
        options["command"] = json!(command);
    }
    Ok(options)
}

/// Returns the ports to forward: `Convert_Slice_string_To_Slice_int32` in
/// `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/conversion.go`.
fn ports(scope: &RequestScope<'_>) -> Result<Vec<u16>, Status> {
    let given = scope.query.all("ports").flat_map(|list| list.split(','));
    let read = given.map(|port| {
        port.parse::<u16>().map_err(|error| {
            let out_of_range = *error.kind() == std::num::IntErrorKind::PosOverflow;
            let why = NumberError { function: "ParseUint", text: port.to_owned(), out_of_range };
            Status::bad_request(format!("cannot convert to []int32: {why}"))
        })
    });
    read.collect()
}

fn write_options(scope: &RequestScope<'_>, kind: &str) -> Value {
    let mut options = Map::new();
    options.insert("kind", kind.into());
    options.insert("apiVersion", "meta.k8s.io/v1".into());
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = scope.query.get(field).filter(|value| !value.is_empty()) {
            options.insert(field, value.into());
        }
    }
    let dry_run: Vec<&str> = scope.query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options.insert("dryRun", json!(dry_run));
    }
    Value::Object(options)
}

fn delete_options(given: &DeleteOptions) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(seconds) = given.grace_period_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = given.propagation {
        options["propagationPolicy"] = match policy {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
        .into();
    }
    if given.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if let Some(orphan) = given.orphan_dependents {
        options["orphanDependents"] = orphan.into();
    }
    if let Some(uid) = &given.uid {
        options["preconditions"]["uid"] = uid.as_str().into();
    }
    if let Some(version) = &given.resource_version {
        options["preconditions"]["resourceVersion"] = version.as_str().into();
    }
    options
}

impl AdmissionHost for Admission<'_> {
    fn lister(&self) -> &dyn ObjectLister {
        self.scope.server
    }

    fn registry(&self) -> Arc<Registry> {
        self.scope.server.registry()
    }

    fn outbound(&self) -> &Outbound {
        self.scope.server.outbound()
    }

    fn clock(&self) -> &Clock {
        self.scope.server.clock()
    }

    fn reviewer(&self) -> AccessReviewer {
        let server = self.scope.server.clone();
        Arc::new(move |spec| authorization::review(&server, spec))
    }

    fn seconds_left(&self) -> Option<u64> {
        self.time_left().map(|left| left.as_millis().div_ceil(1000) as u64)
    }

    fn uid(&self) -> String {
        self.scope.server.ids().uid()
    }

    fn warn(&self, text: String) {
        self.scope.warn(text);
    }

    fn annotate(&self, key: String, value: String) {
        self.scope.annotate(key, value);
    }

    fn schema(&self) -> Arc<Schema> {
        let foreign = match &*self.scope.path.subresource {
            "scale" => "io.k8s.api.autoscaling.v1.Scale",
            "eviction" => "io.k8s.api.policy.v1.Eviction",
            "binding" => "io.k8s.api.core.v1.Binding",
            "token" => "io.k8s.api.authentication.v1.TokenRequest",
            "exec" | "attach" | "portforward" | "proxy" => return OPEN.clone(),
            _ => return self.scope.schema().clone(),
        };
        schema::builtin(foreign).unwrap_or_else(|| self.scope.schema().clone())
    }

    fn kind_error(&self, kind: Option<&Resource>, object: &Value) -> Option<String> {
        if self.is_foreign() {
            return None;
        }
        let own = kind.unwrap_or(&self.scope.kind);
        let api_version = str_field(object, "apiVersion");
        let given = str_field(object, "kind");
        if own.is_unstructured() {
            // Validation refuses another kind.
            return given.is_empty().then(|| format!("Object 'Kind' is missing in '{object}'"));
        }
        let same = given.is_empty() || (given == own.kind && api_version == own.api_version());
        (!same).then(|| body::wrong_kind_error(self.scope, given, api_version))
    }

    fn own_kind<'k>(&'k self, kind: Option<&'k Resource>) -> Option<&'k Resource> {
        let own = (!self.is_foreign()).then(|| kind.unwrap_or(&self.scope.kind));
        own.filter(|own| !own.is_unstructured())
    }

    fn default(&self, kind: Option<&Resource>, object: &mut Value) {
        if !self.is_foreign() {
            kind.unwrap_or(&self.scope.kind).strategy.default(object);
        }
    }

    fn convert<'c>(
        &'c self,
        own: &'c Resource,
        other: &'c Resource,
        object: Value,
    ) -> BoxFuture<'c, Result<Value, Status>> {
        Box::pin(versions::admitted(self.scope.server, own, other, object))
    }

    fn admit_again(&self, object: &mut Value) -> Result<(), Status> {
        let strategy = &self.scope.kind.strategy;
        let context = self.scope.context();
        match (&self.old, self.operation, &*self.scope.path.subresource) {
            _ if self.is_foreign() => Ok(()),
            (None, AdmissionOperation::Create, "") => strategy.admit_create(object, &context),
            (Some(old), AdmissionOperation::Update, "") => strategy.admit_update(object, old, &context),
            (Some(old), AdmissionOperation::Update, subresource) => {
                strategy.admit_subresource(subresource, object, old, &context)
            }
            _ => Ok(()),
        }
    }
}

impl Admission<'_> {
    /// Returns true for subresources whose bodies are of another kind.
    fn is_foreign(&self) -> bool {
        matches!(
            &*self.scope.path.subresource,
            "scale" | "eviction" | "binding" | "token" | "exec" | "attach" | "portforward" | "proxy"
        )
    }
}
