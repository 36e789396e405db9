//! Core `v1` `PersistentVolume`: its phase and the time of the last phase transition.
//!
//! See `pkg/registry/core/persistentvolume/strategy.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, non_null, object_or_default, object_or_insert, semantic_equal, spec_of, str_field,
    text_default, value_default,
};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{UNSET, items, text};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::core::node_selector;
use crate::registry::core::persistent_volume_claim;
use crate::registry::core::persistent_volume_source::{self, SOURCES};
use crate::registry::core::volume_sources;
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::prepare::{reset_all_but_status, spec_values_equal};
use crate::registry::resource_list;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::time::rfc3339;
use crate::registry::{checks, names};
use crate::status::Status;

/// The resource `persistentvolumes`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "persistentvolumes", "PersistentVolume", "io.k8s.api.core.v1.PersistentVolume")
        .cluster()
        .short(&["pv"])
        .status()
        .hash("HN/zwEC+JgM=")
        .rules(PersistentVolume)
        .columns(COLUMNS)
}

/// The strategy of persistent volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentVolume;

const STRATEGY: KindStrategy = KindStrategy::new(Generic { status: true, namespaced: false, ..Generic::NEW }, defaults)
    .with_finalizer(VOLUME_FINALIZER);

const LAST_PHASE_TRANSITION_TIME: &str = "lastPhaseTransitionTime";

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Value) {
        STRATEGY.default(object);
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        STRATEGY.admit_create(object, ctx)
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_create(object, ctx);
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"phase": "Pending", LAST_PHASE_TRANSITION_TIME: rfc3339(ctx.now)}));
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate(object);
        errors.append(validate_spec(object));
        mount_options(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        // Upstream's strategy and its `ValidatePersistentVolumeUpdate` each validate the whole object.
        let mut errors = self.validate(new);
        errors.append(STRATEGY.validate(new));
        errors.append(validate_spec(new));
        errors.append(validate_spec_update(new, old));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        warnings(object)
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings(new)
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        let of = |object: &Value, field: &str| object.get("status").and_then(|status| status.get(field)).cloned();
        let before = of(old, LAST_PHASE_TRANSITION_TIME);
        let after = of(new, LAST_PHASE_TRANSITION_TIME);
        let moved = of(old, "phase") != of(new, "phase");
        let Some(status) = object_or_insert(new, "status") else { return };
        if moved && (after.is_none() || after == before) {
            status.insert(LAST_PHASE_TRANSITION_TIME, rfc3339(ctx.now).into());
        }
    }
}

/// The finalizer of each persistent volume.
pub(crate) const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Defaults of `PersistentVolume`.
fn defaults(map: &mut Map) {
    if let Some(spec) = object_or_default(map, "spec") {
        text_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        value_default(spec, "volumeMode", "Filesystem");
        volume_sources::defaults(spec);
    }
    if let Some(status) = object_or_default(map, "status") {
        text_default(status, "phase", "Pending");
    }
}

const SPEC: Path<'static> = Path::new("spec");

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The annotation with the options of mounts before the field.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Refuses the annotation for volumes that are not mounted with options: `checkMountOption` in
/// `pkg/volume/validation/pv_validation.go`.
fn mount_options(volume: &Value, errors: &mut ErrorList) {
    const MOUNTED: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let has_options = MOUNTED.iter().any(|field| non_null(spec_of(volume), field).is_some());
    if !has_options && metadata::annotation(volume, MOUNT_OPTIONS).is_some() {
        let path = Path::new("metadata");
        let path = path.child("annotations");
        errors.forbidden(&path.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

/// Validates a `PersistentVolume`.
fn validate_spec(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    access_modes(spec, &SPEC, &mut errors);
    capacity(spec, &mut errors);
    checks::one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES, &SPEC, &mut errors);
    if let Some(affinity) = non_null(spec, "nodeAffinity") {
        let path = SPEC.child("nodeAffinity");
        match non_null(affinity, "required") {
            Some(required) => node_selector::validate(required, &path.child("required"), &mut errors),
            None => errors.required(&path.child("required"), "must specify required node constraints"),
        }
    }
    persistent_volume_source::validate(spec, &SPEC, &mut errors);
    let class = str_field(spec, "storageClassName");
    if !class.is_empty() {
        checks::format(class, names::dns1123_subdomain, &SPEC.child("storageClassName"), &mut errors);
    }
    checks::one_of(spec, "volumeMode", &["Block", "Filesystem"], &SPEC, &mut errors);
    if let Some(class) = non_null(spec, "volumeAttributesClassName").and_then(Value::as_str) {
        let path = SPEC.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(&path, "an empty string is disallowed");
        } else {
            checks::format(class, names::dns1123_subdomain, &path, &mut errors);
        }
        if non_null(spec, "csi").is_none() {
            errors.required(&SPEC.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
    errors
}

/// Validates the volume in the spec of a volume attachment: `ValidatePersistentVolumeSpec` for inline volumes.
pub(in crate::registry) fn validate_inline(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
    for field in ["claimRef", "capacity"] {
        if !is_empty_value(spec.get(field)) || field == "claimRef" && non_null(spec, field).is_some() {
            errors.forbidden(&path.child(field), NOT_INLINE);
        }
    }
    if non_null(spec, "csi").is_none() {
        errors.required(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    access_modes(spec, path, errors);
    if !matches!(str_field(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let why = "may only be Retain in the context of inline volumes";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), why);
    }
    if non_null(spec, "nodeAffinity").is_some() {
        errors.forbidden(&path.child("nodeAffinity"), NOT_INLINE);
    }
    persistent_volume_source::validate(spec, path, errors);
    if !str_field(spec, "storageClassName").is_empty() {
        errors.forbidden(&path.child("storageClassName"), NOT_INLINE);
    }
    if non_null(spec, "volumeMode").is_some_and(|mode| *mode != "Filesystem") {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(&path.child("volumeMode"), why);
    }
}

/// Returns the warnings about a volume: `pkg/api/persistentvolume/util.go`.
fn warnings(volume: &Value) -> Vec<String> {
    const DEPRECATED: [(&str, &str); 6] = [
        ("cephfs", "cephfs: deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO: deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS: deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs: deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd: deprecated in v1.28, non-functional in v1.31+"),
    ];
    let annotations = [
        (persistent_volume_claim::BETA_CLASS, persistent_volume_claim::BETA_CLASS_WARNING),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    let given = annotations.into_iter().filter(|(key, _)| metadata::annotation(volume, key).is_some());
    let mut warnings: Vec<String> = given.map(|(key, why)| format!("metadata.annotations[{key}]: {why}")).collect();
    let spec = spec_of(volume);
    if str_field(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let terms = &spec["nodeAffinity"]["required"];
    for (i, term) in array_field(terms, "nodeSelectorTerms").iter().enumerate() {
        let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]");
        warnings.extend(node_selector::term_warnings(term, false, &path));
    }
    let deprecated = DEPRECATED.iter().filter(|(field, _)| non_null(spec, field).is_some());
    warnings.extend(deprecated.map(|(_, why)| format!("spec.{why}")));
    warnings
}

/// Validates an update of a volume: `ValidatePersistentVolumeUpdate`.
fn validate_spec_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let source = |volume: &Value| -> Value {
        let spec = spec_of(volume);
        SOURCES.iter().filter_map(|(field, _)| Some(((*field).to_owned(), non_null(spec, field)?.clone()))).collect()
    };
    let before = source(old);
    let mut after = source(new);
    // The secret for expansion may be added.
    let has_secret = |source: &Value| !source["csi"]["controllerExpandSecretRef"].is_null();
    if before["csi"].is_object() && !has_secret(&before) && has_secret(&after) {
        after["csi"]["controllerExpandSecretRef"] = Value::Null;
    }
    if !spec_values_equal(new, &after, &before) {
        let difference = internal_json::difference_of("PersistentVolumeSource", &before, &after);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(&SPEC.child("persistentvolumesource"), why);
    }
    errors.append(persistent_volume_claim::unchanged_mode(new, old));
    if let Some(before) = non_null(spec_of(old), "nodeAffinity") {
        node_affinity_update(non_null(spec_of(new), "nodeAffinity"), before, &mut errors);
    }
    let class = |volume: &Value| non_null(spec_of(volume), "volumeAttributesClassName").is_some();
    if class(old) && !class(new) {
        let path = SPEC.child("volumeAttributesClassName");
        errors.forbidden(&path, "update from non-nil value to nil is forbidden");
    }
    errors
}

/// Labels of nodes that were beta, with their final names.
const FINAL_LABELS: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Validates a change of the nodes of a volume: only the names of labels may become final ones.
fn node_affinity_update(new: Option<&Value>, old: &Value, errors: &mut ErrorList) {
    let mut masked = new.cloned();
    let terms = masked.as_mut().and_then(|new| new.pointer_mut("/required/nodeSelectorTerms"));
    let terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
    for (term, before) in terms.zip(array_field(&old["required"], "nodeSelectorTerms")) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut).into_iter().flatten();
        for (one, before) in expressions.zip(array_field(before, "matchExpressions")) {
            let change = (str_field(before, "key"), str_field(one, "key"));
            // Upstream looks the final name up in a map, which has the empty one for labels without.
            let is_final = FINAL_LABELS.iter().any(|(old, _)| *old == change.0);
            if FINAL_LABELS.contains(&change) || change.1.is_empty() && !is_final {
                one["key"] = change.0.to_owned().into();
            }
        }
    }
    if semantic_equal(masked.as_ref(), Some(old)) {
        return;
    }
    let shown = new.map_or_else(
        || "null".to_owned(),
        |new| match non_null(new, "required") {
            Some(required) => format!("{{\"Required\":{}}}", internal_json::compact("NodeSelector", required)),
            None => "{\"Required\":null}".to_owned(),
        },
    );
    let why = format!("{}, except for updating from beta label to GA", checks::IMMUTABLE_MESSAGE);
    errors.invalid(&Path::new("nodeAffinity"), BadValue::Raw(shown), why);
}

fn access_modes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("accessModes");
    let modes = array_field(spec, "accessModes");
    if modes.is_empty() {
        errors.required(&path, "");
    }
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(&path, mode, &ACCESS_MODES);
    }
    let (pod, others): (Vec<&str>, Vec<&str>) = modes
        .iter()
        .filter_map(Value::as_str)
        .filter(|mode| ACCESS_MODES.contains(mode))
        .partition(|mode| *mode == "ReadWriteOncePod");
    if !pod.is_empty() && !others.is_empty() {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn capacity(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("capacity");
    let Some(capacity) = spec.get("capacity").and_then(Value::as_object).filter(|capacity| !capacity.is_empty()) else {
        errors.required(&path, "");
        let given = non_null(spec, "capacity").map_or("null", |_| "{}");
        return errors.not_supported(&path, BadValue::Raw(given.to_owned()), &["storage"]);
    };
    if capacity.len() > 1 || !capacity.contains_key("storage") {
        errors.not_supported(&path, BadValue::from(&spec["capacity"]), &["storage"]);
    }
    for (name, amount) in capacity {
        let Some(amount) = Quantity::of(amount) else { continue };
        resource_list::basic_resource(amount, &path.key(name), errors);
        if amount.sign() <= 0 {
            errors.invalid(&path.key(name), amount.to_string(), "must be greater than zero");
        }
    }
}

/// The columns of `persistentvolumes`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Capacity",
        Description::Field("api.core.v1.PersistentVolumeSpec", "capacity"),
        CellSource::Text("/spec/capacity/storage", "0"),
    ),
    Column::string(
        "Access Modes",
        Description::Field("api.core.v1.PersistentVolumeSpec", "accessModes"),
        CellSource::Custom(|volume, _| json!(shown_modes(volume, "/spec/accessModes"))),
    ),
    Column::string(
        "Reclaim Policy",
        Description::Field("api.core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        CellSource::Text("/spec/persistentVolumeReclaimPolicy", ""),
    ),
    Column::string(
        "Status",
        Description::Field("api.core.v1.PersistentVolumeStatus", "phase"),
        CellSource::Custom(|volume, _| json!(shown_phase(volume))),
    ),
    Column::string(
        "Claim",
        Description::Field("api.core.v1.PersistentVolumeSpec", "claimRef"),
        CellSource::Custom(|volume, _| match volume.pointer("/spec/claimRef").filter(|claim| claim.is_object()) {
            Some(claim) => json!(format!("{}/{}", text(claim, "/namespace"), text(claim, "/name"))),
            None => json!(""),
        }),
    ),
    Column::string(
        "StorageClass",
        Description::Text("StorageClass of the pv"),
        CellSource::Custom(|volume, _| json!(shown_class(volume))),
    ),
    Column::string(
        "VolumeAttributesClass",
        Description::Text("VolumeAttributesClass of the pv"),
        CellSource::Optional("/spec/volumeAttributesClassName", UNSET),
    ),
    Column::string(
        "Reason",
        Description::Field("api.core.v1.PersistentVolumeStatus", "reason"),
        CellSource::Text("/status/reason", ""),
    ),
    AGE,
    Column::string(
        "VolumeMode",
        Description::Field("api.core.v1.PersistentVolumeSpec", "volumeMode"),
        CellSource::Optional("/spec/volumeMode", UNSET),
    )
    .wide(),
];

/// Returns the phase that the columns of volumes and claims show.
pub(super) fn shown_phase(object: &Value) -> &str {
    if metadata::is_deleted(object) { "Terminating" } else { text(object, "/status/phase") }
}

/// Returns the storage class that the columns show.
pub(super) fn shown_class(object: &Value) -> &str {
    metadata::annotation(object, "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

/// Formats the access modes at a pointer.
pub(super) fn shown_modes(object: &Value, pointer: &str) -> String {
    let modes =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let present = items(object, pointer);
    let shown: Vec<&str> = modes
        .iter()
        .filter(|(mode, _)| present.iter().any(|m| m.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::registry::lister::EmptyLister;

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn a_volume_has_one_type_and_a_capacity() {
        let volume = json!({"spec": {"accessModes": ["Often"], "capacity": {"x": "0"}, "nfs": {}, "csi": {}}});
        let described: Vec<String> = validate_spec(&volume).iter().map(ToString::to_string).collect();
        assert_eq!(
            described,
            [
                "spec.accessModes: Unsupported value: \"Often\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.capacity: Unsupported value: {\"x\":\"0\"}: supported values: \"storage\"",
                "spec.capacity[x]: Invalid value: \"0\": must be greater than zero",
                "spec.nfs.server: Required value",
                "spec.nfs.path: Required value",
                "spec.nfs.path: Invalid value: \"\": must be an absolute path",
                "spec.csi: Forbidden: may not specify more than 1 volume type",
            ]
        );
    }

    /// The internal type of `pkg/apis/core/types.go`, as `diff.Diff` shows it.
    #[rstest]
    #[case::path(json!({"hostPath": {"path": "/a"}}), json!({"hostPath": {"path": "/b"}}), Some(
        "@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/a\",\n+  \"Path\": \"/b\",\n   \"Type\": null\n  },\n  \"Glusterfs\": null,\n"))]
    #[case::removed(json!({"local": {"path": "/a"}}), json!({}), Some(
        "@@ -18,10 +18,7 @@\n  \"PhotonPersistentDisk\": null,\n  \"PortworxVolume\": null,\n  \"ScaleIO\": null,\n- \"Local\": {\n-  \"Path\": \"/a\",\n-  \"FSType\": null\n- },\n+ \"Local\": null,\n  \"StorageOS\": null,\n  \"CSI\": null\n }\n"))]
    #[case::secret_for_expansion(json!({"csi": {"driver": "d"}}),
        json!({"csi": {"driver": "d", "controllerExpandSecretRef": {"name": "s"}}}), None)]
    fn sources_stay(#[case] old: Value, #[case] new: Value, #[case] expected: Option<&str>) {
        let [old, new] = [old, new].map(|spec| json!({"spec": spec}));
        let errors = validate_spec_update(&new, &old);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let whole = |difference: &str| {
            let path = "spec.persistentvolumesource";
            format!("{path}: Forbidden: {path} is immutable after creation\n{difference}")
        };
        assert_eq!(shown, Vec::from_iter(expected.map(whole)));
    }

    /// `TestValidatePersistentVolumes` in `pkg/volume/validation/pv_validation_test.go`.
    #[rstest]
    #[case("nfs", false)]
    #[case("hostPath", true)]
    #[case("csi", true)]
    fn options_of_mounts(#[case] source: &str, #[case] refused: bool) {
        let volume = json!({"metadata": {"annotations": {MOUNT_OPTIONS: "ro"}}, "spec": {source: {}}});
        let mut errors = ErrorList::new();
        mount_options(&volume, &mut errors);
        let path = "metadata.annotations.volume.beta.kubernetes.io/mount-options";
        let error = format!("{path}: Forbidden: may not specify mount options for this volume type");
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            Vec::from_iter(refused.then_some(error))
        );
    }

    /// `TestVolumeAttachmentValidation` in `pkg/apis/storage/validation/validation_test.go`.
    #[rstest]
    #[case::fine(json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.io", "volumeHandle": "h"}}), &[])]
    #[case::another_type(json!({"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}), &[
        "s.csi: Required value: has to be specified in the context of inline volumes"])]
    #[case::everything(json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d.io", "volumeHandle": "h"}, "claimRef": {},
        "capacity": {"storage": "1"}, "persistentVolumeReclaimPolicy": "Delete", "nodeAffinity": {}, "storageClassName": "c",
        "volumeMode": "Block"}), &[
        "s.claimRef: Forbidden: may not be specified in the context of inline volumes",
        "s.capacity: Forbidden: may not be specified in the context of inline volumes",
        "s.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
        "s.nodeAffinity: Forbidden: may not be specified in the context of inline volumes",
        "s.storageClassName: Forbidden: may not be specified in the context of inline volumes",
        "s.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes"])]
    fn inline_volumes(#[case] spec: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_inline(&spec, &Path::new("s"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_phase_knows_since_when() {
        let at = |second| StrategyContext {
            now: jiff::Timestamp::from_second(second).unwrap(),
            ..StrategyContext::of_test(&EmptyLister)
        };
        let mut volume = json!({"metadata": {"name": "v"}, "spec": {}});
        PersistentVolume.prepare_for_create(&mut volume, &at(0));
        assert_eq!(volume["status"], json!({"phase": "Pending", LAST_PHASE_TRANSITION_TIME: "1970-01-01T00:00:00Z"}));
        let mut bound = volume.clone();
        bound["status"]["phase"] = "Bound".into();
        PersistentVolume.prepare_for_status_update(&mut bound, &volume, &at(60));
        assert_eq!(bound["status"][LAST_PHASE_TRANSITION_TIME], "1970-01-01T00:01:00Z");
        let mut still = bound.clone();
        PersistentVolume.prepare_for_status_update(&mut still, &bound, &at(90));
        assert_eq!(still["status"][LAST_PHASE_TRANSITION_TIME], "1970-01-01T00:01:00Z");
    }
}
