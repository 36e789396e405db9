//! Strategies of resources with few rules: defaults for many (`pkg/apis/*/v1/defaults.go`), `Job` and
//! `PriorityClass`.
//!
//! See `pkg/registry/batch/job/strategy.go` and `pkg/registry/scheduling/priorityclass/strategy.go`.

use super::generic::{Generation, Generic};
use super::meta::{text_default, value_default};
use super::pod::defaults as pod_defaults;
use super::{NameFormat, Strategy, StrategyContext, batch, meta};
use crate::field_errors::{ErrorList, Path};
use crate::json::{Map, Value, json};
use crate::metadata;

const METADATA: Path<'static> = Path::new("metadata");

/// The finalizer of `PersistentVolumeClaim`s, added by admission.
pub(crate) const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";

/// The finalizer of each persistent volume.
pub(crate) const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// A generic strategy with defaults, validation and warnings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    /// The generic rules.
    pub rules: Generic,
    /// Fills in defaults.
    pub default: fn(&mut Map),
    /// The finalizer that admission adds to new objects; empty for none.
    pub finalizer: &'static str,
    /// Kind-specific validation.
    pub check: fn(&Value) -> ErrorList,
    /// Kind-specific validation of an update, beside that of the new object.
    pub check_update: fn(&Value, &Value) -> ErrorList,
    /// Kind-specific validation of a new object among others.
    pub check_among_others: fn(&Value, &StrategyContext<'_>) -> ErrorList,
    /// Drops what clients cannot set.
    pub drop_fields: fn(&mut Value),
    /// Returns warnings for a new object (`None`) or an update (the old object).
    pub warn: fn(&Value, Option<&Value>) -> Vec<String>,
}

impl Defaults {
    /// Creates a strategy that adds defaults to the generic rules.
    pub(crate) const fn new(rules: Generic, default: fn(&mut Map)) -> Self {
        Self {
            rules,
            default,
            finalizer: "",
            check: |_| ErrorList::new(),
            check_update: |_, _| ErrorList::new(),
            check_among_others: |_, _| ErrorList::new(),
            drop_fields: |_| {},
            warn: |_, _| Vec::new(),
        }
    }

    /// Adds kind-specific validation.
    #[must_use]
    pub(crate) const fn check_with(mut self, check: fn(&Value) -> ErrorList) -> Self {
        self.check = check;
        self
    }

    /// Adds kind-specific validation of the new and the old object of an update.
    #[must_use]
    pub(crate) const fn check_update_with(mut self, check: fn(&Value, &Value) -> ErrorList) -> Self {
        self.check_update = check;
        self
    }

    /// Adds kind-specific validation of a new object that needs other objects.
    #[must_use]
    pub(crate) const fn check_among_others_with(
        mut self,
        check: fn(&Value, &StrategyContext<'_>) -> ErrorList,
    ) -> Self {
        self.check_among_others = check;
        self
    }

    /// Adds a function that drops what clients cannot set.
    #[must_use]
    pub(crate) const fn drop_with(mut self, drop_fields: fn(&mut Value)) -> Self {
        self.drop_fields = drop_fields;
        self
    }

    /// Adds warnings.
    #[must_use]
    pub(crate) const fn warn_with(mut self, warn: fn(&Value, Option<&Value>) -> Vec<String>) -> Self {
        self.warn = warn;
        self
    }
}

impl Strategy for Defaults {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            (self.default)(map);
        }
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), crate::Status> {
        if self.finalizer.is_empty() {
            return Ok(());
        }
        if self.finalizer == CLAIM_FINALIZER {
            super::limit_ranger::admit_claim(object, ctx)?;
            admit_default_class(object, ctx);
        }
        let Some(metadata) = meta::object_or_insert(object, "metadata") else { return Ok(()) };
        let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && finalizers.iter().all(|f| f != self.finalizer)
        {
            finalizers.push(self.finalizer.into());
        }
        Ok(())
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        self.rules.prepare_for_create(object, ctx);
        (self.drop_fields)(object);
        self.default(object);
    }

    fn validate_among_others(&self, object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
        (self.check_among_others)(object, ctx)
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = self.rules.validate(object);
        errors.append((self.check)(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        (self.drop_fields)(new);
        self.rules.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.rules.validate_update(new, old);
        errors.append((self.check)(new));
        errors.append((self.check_update)(new, old));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        (self.warn)(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        (self.warn)(new, Some(old))
    }

    fn allow_create_on_update(&self) -> bool {
        self.rules.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.rules.unconditional
    }
}

fn object_mut<'a>(map: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

fn items_mut<'a>(map: &'a mut Map, field: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn object_or_insert<'a>(map: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    value_default(map, field, json!({}));
    object_mut(map, field)
}

/// Defaults of `PersistentVolumeClaim`.
pub(super) fn default_claim(map: &mut Map) {
    if let Some(spec) = object_or_insert(map, "spec") {
        pod_defaults::claim_spec(spec);
    }
    if let Some(status) = object_or_insert(map, "status") {
        text_default(status, "phase", "Pending");
    }
}

/// Defaults of `PersistentVolume`.
pub(super) fn volume(map: &mut Map) {
    if let Some(spec) = object_or_insert(map, "spec") {
        text_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        text_default(spec, "volumeMode", "Filesystem");
        if let Some(path) = object_mut(spec, "hostPath") {
            value_default(path, "type", "");
        }
    }
    if let Some(status) = object_or_insert(map, "status") {
        text_default(status, "phase", "Pending");
    }
}

/// Defaults of `PodTemplate`.
pub(super) fn pod_template(map: &mut Map) {
    if let Some(template) = map.get_mut("template") {
        pod_defaults::template(template);
    }
}

fn job_template(spec: &mut Map) {
    if let Some(template) = spec.get_mut("template") {
        pod_defaults::template(template);
    }
}

fn job(map: &mut Map) {
    let Some(spec) = object_or_insert(map, "spec") else { return };
    if spec.get("completions").is_none_or(Value::is_null) && spec.get("parallelism").is_none_or(Value::is_null) {
        spec.insert("completions", 1.into());
    }
    value_default(spec, "parallelism", 1);
    batch::default_failure_policy(spec);
    value_default(spec, "completionMode", "NonIndexed");
    value_default(spec, "suspend", false);
    value_default(spec, "manualSelector", false);
    let replacement = if meta::is_empty_value(spec.get("podFailurePolicy")) { "TerminatingOrFailed" } else { "Failed" };
    value_default(spec, "podReplacementPolicy", replacement);
    job_template(spec);
    let labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
    if let (Some(labels), Some(metadata)) = (labels, object_or_insert(map, "metadata"))
        && meta::is_empty_value(metadata.get("labels"))
    {
        metadata.insert("labels", labels);
    }
}

/// `batch/v1` Job. The generated selector matches a pod label with the job's uid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job;

const JOB_STRATEGY: Generic = Generic { generation: Generation::Spec, status: true, ..Generic::NEW };

impl Strategy for Job {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            job(map);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        JOB_STRATEGY.prepare_for_create(object, ctx);
        if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
            return;
        }
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let (uid, name) = (meta::str_field(metadata, "uid").to_owned(), meta::str_field(metadata, "name").to_owned());
        let own = metadata.get("labels").cloned();
        let template = object.pointer("/spec/template/metadata/labels").cloned();
        let shared = own.is_some() && own == template;
        let labels = [
            ("batch.kubernetes.io/controller-uid", uid.as_str()),
            ("batch.kubernetes.io/job-name", name.as_str()),
            ("controller-uid", uid.as_str()),
            ("job-name", name.as_str()),
        ];
        let add = |target: &mut Value| {
            let Some(map) = meta::object_or_insert(target, "labels") else { return };
            for (key, value) in labels {
                map.insert(key.to_owned(), value.into());
            }
        };
        if let Some(metadata) = object.pointer_mut("/spec/template/metadata") {
            add(metadata);
        }
        if let Some(metadata) = object.get_mut("metadata").filter(|_| shared) {
            // Upstream's defaulting shares the template's map with the job's labels, so both get the additions.
            add(metadata);
        }
        if own.is_none()
            && let Some(labels) = object.pointer("/spec/template/metadata/labels").cloned()
        {
            metadata::set(object, "labels", labels);
        }
        if let Some(spec) = meta::object_or_insert(object, "spec") {
            let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
            spec.entry("selector").or_insert(selector);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = JOB_STRATEGY.validate(object);
        errors.append(batch::validate_job(object));
        errors.append(batch::validate_indexed_job_name(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        JOB_STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = JOB_STRATEGY.validate_update(new, old);
        errors.append(batch::validate_job_update(new, old));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        batch::job_warnings(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        batch::job_warnings(new, Some(old))
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// Defaults of `CronJob`.
pub(super) fn cron_job(map: &mut Map) {
    let Some(spec) = object_or_insert(map, "spec") else { return };
    text_default(spec, "concurrencyPolicy", "Allow");
    value_default(spec, "suspend", false);
    value_default(spec, "successfulJobsHistoryLimit", 3);
    value_default(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = object_mut(spec, "jobTemplate").and_then(|t| object_mut(t, "spec")) {
        job_template(job);
    }
}

/// Defaults of `Endpoints`.
pub(super) fn endpoints(map: &mut Map) {
    for subset in items_mut(map, "subsets") {
        for port in items_mut(subset, "ports") {
            text_default(port, "protocol", "TCP");
        }
    }
}

/// Defaults of `EndpointSlice`.
pub(super) fn endpoint_slice(map: &mut Map) {
    for port in items_mut(map, "ports") {
        value_default(port, "name", "");
        text_default(port, "protocol", "TCP");
    }
}

/// Defaults of `CSIDriver`.
pub(super) fn csi_driver(map: &mut Map) {
    let Some(spec) = object_or_insert(map, "spec") else { return };
    value_default(spec, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        value_default(spec, field, false);
    }
    value_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if meta::is_empty_value(spec.get("volumeLifecycleModes")) {
        spec.insert("volumeLifecycleModes", json!(["Persistent"]));
    }
}

/// Defaults of `VolumeAttachment`.
pub(super) fn volume_attachment(map: &mut Map) {
    if let Some(status) = object_or_insert(map, "status") {
        value_default(status, "attached", false);
    }
}

/// Defaults of `IngressClass`.
pub(super) fn ingress_class(map: &mut Map) {
    if let Some(parameters) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "parameters")) {
        value_default(parameters, "scope", "Cluster");
    }
}

/// Defaults of `PriorityLevelConfiguration`.
pub(super) fn priority_level(map: &mut Map) {
    let Some(spec) = object_mut(map, "spec") else { return };
    if let Some(limited) = object_mut(spec, "limited") {
        value_default(limited, "nominalConcurrencyShares", 30);
        value_default(limited, "lendablePercent", 0);
    }
    if let Some(exempt) = object_mut(spec, "exempt") {
        value_default(exempt, "nominalConcurrencyShares", 0);
        value_default(exempt, "lendablePercent", 0);
    }
}

/// Defaults of `APIService`.
pub(super) fn api_service(map: &mut Map) {
    if let Some(service) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "service")) {
        value_default(service, "port", 443);
    }
}

/// Defaults of `StorageClass`.
pub(super) fn storage_class(map: &mut Map) {
    text_default(map, "reclaimPolicy", "Delete");
    text_default(map, "volumeBindingMode", "Immediate");
}

/// Defaults of `RoleBinding` and `ClusterRoleBinding`.
pub(super) fn role_binding(map: &mut Map) {
    if let Some(role) = object_mut(map, "roleRef") {
        text_default(role, "apiGroup", "rbac.authorization.k8s.io");
    }
    for subject in items_mut(map, "subjects") {
        if subject.get("kind").is_some_and(|k| k == "User" || k == "Group") {
            text_default(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

/// Defaults of `NetworkPolicy`.
pub(super) fn network_policy(map: &mut Map) {
    let Some(spec) = object_or_insert(map, "spec") else { return };
    if meta::is_empty_value(spec.get("policyTypes")) {
        let egress = !meta::is_empty_value(spec.get("egress"));
        spec.insert("policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
    for rules in ["ingress", "egress"] {
        for rule in items_mut(spec, rules) {
            for port in items_mut(rule, "ports") {
                text_default(port, "protocol", "TCP");
            }
        }
    }
}

/// Defaults of `Ingress`.
pub(super) fn ingress(map: &mut Map) {
    if let Some(status) = object_or_insert(map, "status") {
        value_default(status, "loadBalancer", json!({}));
    }
}

/// Defaults of `LimitRange`: container limits and requests derived from each other and from `max` and `min`.
pub(super) fn limit_range(map: &mut Map) {
    let Some(spec) = object_or_insert(map, "spec") else { return };
    for limit in items_mut(spec, "limits") {
        for field in ["max", "min", "default", "defaultRequest"] {
            pod_defaults::quantities(limit, field);
        }
        if limit.get("type") != Some(&Value::from("Container")) {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(given) = limit.get(from).and_then(Value::as_object).filter(|m| !m.is_empty()).cloned() else {
                continue;
            };
            let Some(target) = object_or_insert(limit, to) else { continue };
            for (name, value) in given {
                target.entry(name).or_insert(value);
            }
        }
    }
}

/// Defaults of `HorizontalPodAutoscaler` v2.
pub(super) fn autoscaler(map: &mut Map) {
    if let Some(spec) = object_or_insert(map, "spec") {
        value_default(spec, "minReplicas", 1);
        if meta::is_empty_value(spec.get("metrics")) {
            let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
            spec.insert("metrics", json!([{"type": "Resource", "resource": cpu}]));
        }
        super::autoscaling::default_behavior(spec);
    }
    if let Some(status) = object_or_insert(map, "status") {
        value_default(status, "desiredReplicas", 0);
        status.entry("currentMetrics").or_insert(Value::Null);
    }
}

/// The annotations of a storage class that makes it the default; the second one is from beta.
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The plugin `DefaultStorageClass`: a claim that names no class gets the default one, of several the newest. See
/// `plugin/pkg/admission/storage/storageclass/setdefault/admission.go`.
fn admit_default_class(claim: &mut Value, ctx: &StrategyContext<'_>) {
    let given = claim.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null());
    if given || metadata::annotation(claim, "volume.beta.kubernetes.io/storage-class").is_some() {
        return;
    }
    let classes = ctx.lookup.list_holding("storage.k8s.io", "storageclasses", "", "is-default-class");
    let is_default = |class: &&Value| DEFAULT_CLASS.iter().any(|key| metadata::annotation(class, key) == Some("true"));
    let newest = classes.iter().filter(is_default).min_by_key(|class| {
        let created = metadata::text(class, "creationTimestamp");
        (std::cmp::Reverse(created.to_owned()), metadata::name(class).to_owned())
    });
    if let (Some(class), Some(spec)) = (newest, meta::object_or_insert(claim, "spec")) {
        spec.insert("storageClassName", metadata::name(class).into());
    }
}

/// `scheduling.k8s.io/v1` `PriorityClass`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriorityClass;

const PRIORITY_CLASS_STRATEGY: Generic = Generic { generation: Generation::Fixed, namespaced: false, ..Generic::NEW };

/// The highest priority of user-defined classes.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

impl Strategy for PriorityClass {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            text_default(map, "preemptionPolicy", "PreemptLowerPriority");
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        PRIORITY_CLASS_STRATEGY.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, false, NameFormat::Subdomain, &METADATA);
        let (name, value) = (meta::name(object), object.get("value").and_then(Value::as_i64).unwrap_or(0));
        if name.starts_with("system-") {
            let known = matches!(
                (name, value),
                ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
            );
            if !known {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
                );
                errors.forbidden(&METADATA.child("name"), why);
            }
        } else if value > HIGHEST_USER_PRIORITY {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
            errors.forbidden(&Path::new("value"), why);
        }
        let policy = meta::str_field(object, "preemptionPolicy");
        if !matches!(policy, "" | "PreemptLowerPriority" | "Never") {
            errors.not_supported(&Path::new("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let value = |o: &Value| o.get("value").and_then(Value::as_i64).unwrap_or(0);
        if value(new) != value(old) {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let path = Path::new("preemptionPolicy");
        meta::validate_immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), &path, &mut errors);
        errors
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::registry::ObjectLister;

    /// Three classes, two of which are defaults.
    struct Classes;

    impl ObjectLister for Classes {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            let class = |name: &str, created: &str, key: &str, value: &str| {
                let metadata = json!({"name": name, "creationTimestamp": created, "annotations": {key: value}});
                json!({"metadata": metadata})
            };
            vec![
                class("old", "2026-01-01T00:00:00Z", DEFAULT_CLASS[0], "true"),
                class("new", "2026-01-02T00:00:00Z", DEFAULT_CLASS[1], "true"),
                class("other", "2026-01-03T00:00:00Z", DEFAULT_CLASS[0], "false"),
            ]
        }
    }

    #[rstest]
    #[case::none(json!({"spec": {}}), json!("new"))]
    #[case::empty(json!({"spec": {"storageClassName": ""}}), json!(""))]
    #[case::own(json!({"spec": {"storageClassName": "own"}}), json!("own"))]
    #[case::beta(json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}, "spec": {}}), json!(null))]
    fn a_claim_without_a_class_gets_the_newest_default(#[case] mut claim: Value, #[case] expected: Value) {
        let ctx = StrategyContext { now: Timestamp::UNIX_EPOCH, user: &crate::authn::NO_USER, lookup: &Classes };
        admit_default_class(&mut claim, &ctx);
        assert_eq!(claim["spec"]["storageClassName"], expected);
    }
}
