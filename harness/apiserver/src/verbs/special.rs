//! Handlers of subresources that have logic of their own: scale, eviction, binding, token, finalize and others. Tokens
//! follow `pkg/registry/core/serviceaccount/storage/token.go` of Kubernetes 1.36.

use std::time::Duration;

use http::header::CONTENT_TYPE;

use super::body::{Shown, encode};
use super::options::{DeleteOptions, WriteOptions};
use super::scope::Scope;
use super::write::{Part, UpdateRules, Written};
use crate::identity::{Claims, ISSUER};
use crate::json::{Value, json};
use crate::kinds::selector::array;
use crate::kinds::{ErrorList, Path, meta};
use crate::lifecycle;
use crate::managedfields::{self, BEFORE_FIRST_APPLY, Write};
use crate::patch::{self, PatchType};
use crate::request::{Reply, ResourcePath};
use crate::schema;
use crate::status::{GroupResource, Status};
use crate::store::ResourceId;
use crate::subresources::{binding, eviction, scale};
use crate::table;
use crate::table::accept::{Negotiated, Transform};

/// Field manager of an evicted pod's changes to a budget's status.
const EVICTION_MANAGER: &str = "kube-apiserver";

const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

impl Scope<'_> {
    /// Handles subresources other than `status`.
    pub(crate) async fn special_subresource(&self, verb: &str) -> Result<Reply, Status> {
        match (&*self.path.subresource, verb) {
            ("eviction", "create") => self.evict().await,
            ("binding", "create") => self.bind(Some(&self.path.name)),
            ("scale", _) => self.scale(verb),
            ("finalize", "update") => self.write_reply(|| self.finalize()),
            ("log", "get") => self.log(),
            ("token", "create") => self.token(),
            ("ephemeralcontainers" | "resize" | "approval", "get") => self.get(),
            ("ephemeralcontainers" | "resize" | "approval", "update") => {
                self.write_reply(|| self.update(Part::Special))
            }
            ("ephemeralcontainers" | "resize" | "approval", "patch") => {
                self.check_patch_type()?;
                self.write_reply(|| self.patch(Part::Special))
            }
            ("exec" | "attach" | "portforward", _) => self.stream(),
            (subresource, _) => {
                self.stored()?;
                tracing::info!(path = self.request.path, subresource, "this subresource is not served");
                Err(Status::method_not_allowed())
            }
        }
    }

    /// Returns the scope of another object on this server, for the same caller.
    pub(crate) fn on(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Scope<'_>, Status> {
        let registry = self.server.registry();
        let kind = registry.lookup(group, version, plural).ok_or_else(Status::unknown_resource)?;
        let path = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: plural.to_owned(),
            name: name.to_owned(),
            ..ResourcePath::default()
        };
        Ok(Scope::new(self.server, kind.clone(), path, self.request, self.caller.clone()))
    }

    async fn evict(&self) -> Result<Reply, Status> {
        let negotiated = self.negotiate_answer()?;
        WriteOptions::parse(&self.query, "CreateOptions", None)?;
        let mut body = self.decode_as(&["policy/v1"], "Eviction")?;
        lifecycle::ensure_namespace(&mut body, &self.path.namespace)?;
        let dry_run: Vec<String> = self.query.all("dryRun").map(str::to_owned).collect();
        let outcome = eviction::evict(self, &self.path.namespace, &self.path.name, &body, &dry_run).await?;
        let code = if outcome.code == 0 { 201 } else { outcome.code };
        self.show(code, Shown::Status(&outcome), negotiated)
    }

    /// Decodes a body of a subresource's own kind.
    fn decode_as(&self, versions: &[&str], kind: &str) -> Result<Value, Status> {
        let schema_name = match kind {
            "Eviction" => "io.k8s.api.policy.v1.Eviction",
            "Binding" => "io.k8s.api.core.v1.Binding",
            "TokenRequest" => "io.k8s.api.authentication.v1.TokenRequest",
            _ => SCALE_SCHEMA,
        };
        let default = versions.first().copied().unwrap_or_default();
        let (group, version) = default.split_once('/').unwrap_or(("", default));
        let options = WriteOptions::parse(&self.query, "CreateOptions", None)?;
        self.decode_kind(&options, kind, group, version, schema::builtin(schema_name))
    }

    /// Handles POST of a Binding, to a pod (`name`) or to the old `bindings` collection.
    pub(crate) fn bind(&self, name: Option<&str>) -> Result<Reply, Status> {
        let negotiated = self.negotiate_answer()?;
        let options = WriteOptions::parse(&self.query, "CreateOptions", None)?;
        let mut body = self.decode_as(&["v1"], "Binding")?;
        lifecycle::ensure_namespace(&mut body, &self.path.namespace)?;
        binding::check(&body, name)?;
        binding::admit(&mut body, self.server);
        let pod_name = lifecycle::metadata_text(&body, "name").to_owned();
        if pod_name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let pods = self.on("", "v1", "pods", &self.path.namespace, &pod_name)?;
        let now = lifecycle::rfc3339(self.server.clock().now());
        let rules = UpdateRules { dry_run: options.dry_run, ..UpdateRules::default() };
        pods.raw_update(&rules, &mut |pod| binding::apply(pod, &body, &now))?;
        let mut status = Status::success(crate::status::Details::default());
        status.details = None;
        status.code = 201;
        self.show(201, Shown::Status(&status), negotiated)
    }

    fn scale(&self, verb: &str) -> Result<Reply, Status> {
        let negotiated = self.negotiate()?;
        if verb == "get" {
            let shown = self.scale_of(&self.value(&*self.stored()?))?;
            return self.show_scale(&shown, negotiated);
        }
        if verb == "patch" && self.request.header(CONTENT_TYPE).starts_with("application/apply-patch") {
            return self.show_scale(&self.apply_scale()?, negotiated);
        }
        let (options, wanted) = self.wanted_scale(verb)?;
        let rules = UpdateRules { dry_run: options.dry_run, ..UpdateRules::default() };
        let manager = self.manager(&options.field_manager);
        let written = self.guaranteed_update(Part::Whole, &rules, &mut |old| {
            let old = old.ok_or_else(|| self.not_found(&self.path.name))?;
            let wanted = wanted(&self.scale_to_change(old)?)?;
            let uid = lifecycle::metadata_text(&wanted, "uid");
            let present = lifecycle::metadata_text(old, "uid");
            if !uid.is_empty() && uid != present {
                if verb == "update" {
                    return Err(self.uid_mismatch(uid, present));
                }
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {present}");
                let scales = format!("{}/scale", self.kind.plural);
                let resource = GroupResource::new(&self.kind.group, &scales);
                return Err(Status::conflict(resource, &self.path.name, &why));
            }
            let mut new = old.clone();
            self.set_scale(&mut new, &wanted)?;
            // A Scale without a resourceVersion applies to any version, even if updates of the kind must set one.
            if lifecycle::metadata_text(&new, "resourceVersion").is_empty() {
                let version = lifecycle::metadata_text(old, "resourceVersion").to_owned();
                lifecycle::metadata_mut(&mut new).insert("resourceVersion", version.into());
            }
            if self.replicas_are_owned(old) {
                if self.is_scaled_to_nothing(old, &wanted) {
                    // Go omits a zero from a Scale, so its owners lose the field.
                    managedfields::disown(&mut new, &["spec", "replicas"]);
                } else {
                    new = self.manage(Some(old), new, &manager);
                    forget_times_of_scales(&mut new);
                }
            }
            Ok(new)
        })?;
        let shown = match &written {
            Written::Stored { stored, .. } => self.scale_of(&self.value(stored))?,
            Written::Shown { object, .. } => self.scale_of(object)?,
        };
        self.show_scale(&shown, negotiated)
    }

    fn show_scale(&self, shown: &Value, negotiated: Negotiated) -> Result<Reply, Status> {
        Ok(match negotiated.transform {
            Some((Transform::Table, version)) => {
                let (printer, rendering) = (table::scale_printer(self.is_custom()), self.rendering(version)?);
                encode(200, &table::table_of_object(&printer, shown, &rendering, true), negotiated.media)
            }
            Some((Transform::PartialObjectMetadata, version)) => {
                encode(200, &table::partial_metadata(shown, version), negotiated.media)
            }
            _ => encode(200, shown, negotiated.media),
        })
    }

    /// Handles server-side apply of a Scale: the manager comes to own the field behind `spec.replicas`, and no other.
    fn apply_scale(&self) -> Result<Value, Status> {
        let options = WriteOptions::parse(&self.query, "PatchOptions", Some(true))?;
        let rules = UpdateRules { dry_run: options.dry_run, ..UpdateRules::default() };
        let (scale, again) = self.applied_config()?;
        let (kind, version) = (meta::text(&scale, "kind"), meta::text(&scale, "apiVersion"));
        if kind != "Scale" || version != "autoscaling/v1" {
            let slash = if version.contains('/') { "" } else { "/" };
            let why = format!("invalid object type: {slash}{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
        if !lifecycle::metadata_text(&scale, "name").is_empty() {
            lifecycle::check_name(&scale, &self.path.name)?;
        }
        self.judge_repetitions(again)?;
        let paths = self.scale_paths().unwrap_or_default();
        let mut config = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.kind, "metadata": {"name": self.path.name},
        });
        if let Some(replicas) = scale.pointer("/spec/replicas") {
            scale::set_replicas(&mut config, &paths, replicas.clone());
        }
        let written = self.guaranteed_update(Part::Whole, &rules, &mut |old| {
            let old = old.ok_or_else(|| self.not_found(&self.path.name))?;
            let force = options.force.unwrap_or(false);
            let before = self.with_owned_replicas(old)?;
            let mut new = self
                .apply_config(Some(&before), config.clone(), &options.field_manager, force)
                .map_err(|refusal| in_terms_of_scales(refusal, &self.kind.api_version()))?;
            if self.scale_paths().is_none() && self.replicas_are_owned(old) && !self.replicas_are_owned(&new) {
                // The last owner gave up the field: a Scale without replicas means zero, not the default.
                new["spec"]["replicas"] = 0.into();
            }
            forget_times_of_scales(&mut new);
            let errors = scale::validate(&self.scale_of(&new)?);
            if errors.is_empty() {
                return Ok(new);
            }
            Err(Status::invalid("autoscaling", "Scale", &self.path.name, &errors))
        })?;
        match &written {
            Written::Stored { stored, .. } => self.scale_of(&self.value(stored)),
            Written::Shown { object, .. } => self.scale_of(object),
        }
    }

    /// Returns the Scale that a write starts from; missing replicas of a custom resource count as zero.
    fn scale_to_change(&self, object: &Value) -> Result<Value, Status> {
        self.scale_of(object).or_else(|refusal| {
            let paths = self.scale_paths().ok_or(refusal)?;
            let mut filled = object.clone();
            scale::set_replicas(&mut filled, &paths, 0.into());
            self.scale_of(&filled)
        })
    }

    /// Returns a function that makes the desired Scale from the current one.
    #[expect(clippy::type_complexity, reason = "a closure over the request's body")]
    fn wanted_scale(
        &self,
        verb: &str,
    ) -> Result<(WriteOptions, Box<dyn Fn(&Value) -> Result<Value, Status> + '_>), Status> {
        if verb == "update" {
            let options = WriteOptions::parse(&self.query, "UpdateOptions", None)?;
            let schema = schema::builtin(SCALE_SCHEMA);
            let mut body = self.decode_kind(&options, "Scale", "autoscaling", "v1", schema)?;
            lifecycle::ensure_namespace(&mut body, &self.path.namespace)?;
            lifecycle::check_name(&body, &self.path.name)?;
            return Ok((options, Box::new(move |_| Ok(body.clone()))));
        }
        self.check_patch_type()?;
        let content_type = self.request.header(CONTENT_TYPE);
        let patch_type = match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => PatchType::Json,
            "application/merge-patch+json" => PatchType::Merge,
            _ => PatchType::Strategic,
        };
        let options = WriteOptions::parse(&self.query, "PatchOptions", Some(false))?;
        let validation = options.field_validation;
        let schema = schema::builtin(SCALE_SCHEMA).ok_or_else(Status::unknown_resource)?;
        let patch = move |present: &Value| {
            let body = &self.request.body;
            let patched = patch::apply_patch(patch_type, &schema, present.clone(), body, validation)?;
            patched.warnings.into_iter().for_each(|warning| self.warn(warning));
            lifecycle::check_name(&patched.value, &self.path.name)?;
            Ok(patched.value)
        };
        Ok((options, Box::new(patch)))
    }

    /// Returns true if a built-in workload is scaled from some replicas to zero.
    fn is_scaled_to_nothing(&self, old: &Value, wanted: &Value) -> bool {
        let count = |object: &Value| object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        self.scale_paths().is_none() && count(old) != 0 && count(wanted) == 0
    }

    /// Returns the object that an apply of a Scale starts from: replicas without an owner get `before-first-apply`.
    fn with_owned_replicas(&self, object: &Value) -> Result<Value, Status> {
        let mut object = object.clone();
        if self.replicas_are_owned(&object) || self.scale_of(&object)?.pointer("/spec/replicas").is_none() {
            return Ok(object);
        }
        let mut fields = json!({});
        for step in self.replicas_path().rsplit('.').filter(|step| !step.is_empty()) {
            fields = json!({format!("f:{step}"): fields});
        }
        let entry = json!({
            "manager": BEFORE_FIRST_APPLY, "operation": "Update", "apiVersion": self.kind.api_version(),
            "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        let entries = lifecycle::metadata_mut(&mut object).entry("managedFields").or_insert_with(|| json!([]));
        entries.as_array_mut().into_iter().for_each(|entries| entries.push(entry.clone()));
        Ok(object)
    }

    /// Returns the path of the replicas behind the Scale.
    fn replicas_path(&self) -> String {
        self.scale_paths().map_or_else(|| ".spec.replicas".to_owned(), |paths| paths.spec_replicas)
    }

    /// Returns true if the field behind the Scale has an owner; without one, scaling does not create ownership.
    fn replicas_are_owned(&self, object: &Value) -> bool {
        let pointer = self.replicas_path().replace('.', "/f:");
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        entries.is_some_and(|entries| entries.iter().any(|entry| entry["fieldsV1"].pointer(&pointer).is_some()))
    }

    fn scale_of(&self, object: &Value) -> Result<Value, Status> {
        match self.scale_paths() {
            Some(paths) => scale::of_custom(object, &paths),
            None => Ok(scale::of_builtin(object)),
        }
    }

    fn set_scale(&self, object: &mut Value, wanted: &Value) -> Result<(), Status> {
        scale::apply(object, wanted, self.scale_paths().as_ref())
    }

    /// Handles PUT of `namespaces/…/finalize`, which changes everything except the status.
    fn finalize(&self) -> Result<Written, Status> {
        let options = WriteOptions::parse(&self.query, "UpdateOptions", None)?;
        let object = self.decode(&options)?;
        lifecycle::check_name(&object, &self.path.name)?;
        let rules = UpdateRules { dry_run: options.dry_run, ..UpdateRules::default() };
        let manager = self.manager(&options.field_manager);
        self.guaranteed_update(Part::Finalize, &rules, &mut |old| {
            let old = old.ok_or_else(|| self.not_found(&self.path.name))?;
            Ok(self.manage(Some(old), object.clone(), &manager))
        })
    }

    /// Checks that the object to which a token is bound exists.
    fn check_token_target(&self, target: &Value) -> Result<(String, String, String), Status> {
        let (kind, version, name) =
            (meta::text(target, "kind"), meta::text(target, "apiVersion"), meta::text(target, "name"));
        let (plural, namespace) = match (version, kind) {
            ("v1", "Pod") => ("pods", &*self.path.namespace),
            ("v1", "Secret") => ("secrets", &*self.path.namespace),
            ("v1", "Node") => ("nodes", ""),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(why));
            }
        };
        match self.server.get(&ResourceId::new("", plural), namespace, name) {
            Some(found) => Ok((kind.to_ascii_lowercase(), name.to_owned(), found.uid().to_owned())),
            None => Err(Status::not_found(GroupResource::new("", plural), name)),
        }
    }

    /// Issues a token for a service account.
    fn token(&self) -> Result<Reply, Status> {
        const LIFETIME_SECONDS: i64 = 3600;
        const SHORTEST_SECONDS: i64 = 600;
        const LONGEST_SECONDS: i64 = 1 << 32;
        let negotiated = self.negotiate_answer()?;
        let account = self.stored()?;
        let mut body = self.decode_as(&["authentication.k8s.io/v1"], "TokenRequest")?;
        lifecycle::ensure_namespace(&mut body, &self.path.namespace)?;
        let seconds = body.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(LIFETIME_SECONDS);
        let now = self.server.clock().now();
        let end = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now);
        body["spec"]["expirationSeconds"] = seconds.into();
        if !(SHORTEST_SECONDS..=LONGEST_SECONDS).contains(&seconds) {
            let mut errors = ErrorList::new();
            let path = Path::new("spec");
            let why = if seconds < SHORTEST_SECONDS {
                "may not specify a duration less than 10 minutes"
            } else {
                "may not specify a duration larger than 2^32 seconds"
            };
            errors.invalid(&path.child("expirationSeconds"), seconds, why);
            return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", &errors));
        }
        let named = lifecycle::metadata_text(&body, "name");
        if !named.is_empty() && named != self.path.name {
            let mut errors = ErrorList::new();
            let why = "must match the service account name if specified";
            errors.invalid(&Path::new("metadata").child("name"), named, why);
            return Err(Status::invalid("authentication.k8s.io", "TokenRequest", &self.path.name, &errors));
        }
        let target = body["spec"].get("boundObjectRef").filter(|target| !target.is_null());
        let bound = target.map(|target| self.check_token_target(target)).transpose()?;
        if let Some(schema) = schema::builtin("io.k8s.api.authentication.v1.TokenRequest") {
            let options = WriteOptions::parse(&self.query, "CreateOptions", None)?;
            let manager = self.manager(&options.field_manager);
            let api_version = "authentication.k8s.io/v1";
            let write = Write { manager: &manager, api_version, subresource: "token", reset: &[], now };
            managedfields::update(&schema, None, &mut body, &write);
        }
        if meta::is_empty(body["spec"].get("audiences")) {
            body["spec"]["audiences"] = json!([ISSUER]);
        }
        let token = self.server.tokens().sign(&Claims {
            namespace: self.path.namespace.clone(),
            account: self.path.name.clone(),
            uid: account.uid().to_owned(),
            bound,
            audiences: array(&body["spec"], "audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            id: self.server.ids().uid(),
            issued: now.as_second(),
            expires: end.as_second(),
        });
        body["status"] = json!({"token": token, "expirationTimestamp": lifecycle::rfc3339(end)});
        let metadata = lifecycle::metadata_mut(&mut body);
        metadata.insert("name", self.path.name.as_str().into());
        metadata.insert("namespace", self.path.namespace.as_str().into());
        metadata.insert("uid", self.server.ids().uid().into());
        metadata.insert("creationTimestamp", lifecycle::rfc3339(now).into());
        self.show(201, Shown::Value(&body), negotiated)
    }
}

/// Replaces the owners' API version in conflicts by the Scale's, as upstream.
fn in_terms_of_scales(mut refusal: Status, own_version: &str) -> Status {
    let reword = |text: &mut String| *text = text.replace(&format!("using {own_version}"), "using autoscaling/v1");
    reword(&mut refusal.message);
    if let Some(details) = &mut refusal.details {
        details.causes.iter_mut().for_each(|cause| reword(&mut cause.message));
    }
    refusal
}

/// Removes the time from entries gained through a Scale, and sorts entries without a time before the others of their
/// operation. Upstream loses the time when it translates the entries between the two kinds.
fn forget_times_of_scales(object: &mut Value) {
    let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) else { return };
    for entry in entries.iter_mut().filter(|entry| entry["subresource"] == "scale") {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries.sort_by_key(|entry| (entry["operation"] != "Apply", entry.get("time").is_some()));
}

impl eviction::EvictionBackend for Scope<'_> {
    fn pod(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let pods = self.on("", "v1", "pods", namespace, name)?;
        Ok(pods.value(&*pods.stored()?))
    }

    fn update_pod_status(
        &self,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&mut Value) -> Result<(), Status>,
    ) -> Result<Value, Status> {
        let pods = self.on("", "v1", "pods", namespace, name)?;
        let written = pods.guaranteed_update(Part::Status, &UpdateRules::default(), &mut |old| {
            let mut new = old.cloned().ok_or_else(|| pods.not_found(name))?;
            change(&mut new)?;
            Ok(new)
        })?;
        Ok(pods.written_value(&written))
    }

    fn delete_pod(&self, namespace: &str, name: &str, options: &Value) -> Result<(), Status> {
        let pods = self.on("", "v1", "pods", namespace, name)?;
        pods.delete_object(name, &DeleteOptions::from_body(options)?).map(|_| ())
    }

    fn budgets(&self, namespace: &str) -> Result<Vec<Value>, Status> {
        let budgets = self.on("policy", "v1", "poddisruptionbudgets", namespace, "")?;
        let stored = self.server.list(&budgets.resource, Some(namespace));
        Ok(stored.iter().map(|stored| budgets.value(stored)).collect())
    }

    fn budget(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let budgets = self.on("policy", "v1", "poddisruptionbudgets", namespace, name)?;
        Ok(budgets.value(&*budgets.stored()?))
    }

    fn update_budget_status(&self, namespace: &str, budget: Value) -> Result<(), Status> {
        let name = lifecycle::metadata_text(&budget, "name").to_owned();
        let mut budgets = self.on("policy", "v1", "poddisruptionbudgets", namespace, &name)?;
        "status".clone_into(&mut budgets.path.subresource);
        let update = &mut |old: Option<&Value>| Ok(budgets.manage(old, budget.clone(), EVICTION_MANAGER));
        budgets.guaranteed_update(Part::Status, &UpdateRules::default(), update).map(|_| ())
    }

    fn now(&self) -> String {
        lifecycle::rfc3339(self.server.clock().now())
    }

    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send {
        let clock = self.server.clock().clone();
        async move { clock.sleep(time).await }
    }
}
