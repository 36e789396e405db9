//! Columns of the remaining built-in kinds: storage, networking, RBAC, admission, scheduling. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use super::column::{AGE, CellSource, Column, Description, NAME};
use super::core::ingress_addresses;
use super::format::{NONE, UNSET, count, flag, items, text, text_or};
use crate::json::{Value, json};
use crate::metadata;

/// The columns of `persistentvolumes`.
pub(super) const PERSISTENT_VOLUMES: &[Column] = &[
    NAME,
    Column::string(
        "Capacity",
        Description::Field("api.core.v1.PersistentVolumeSpec", "capacity"),
        CellSource::Text("/spec/capacity/storage", "0"),
    ),
    Column::string(
        "Access Modes",
        Description::Field("api.core.v1.PersistentVolumeSpec", "accessModes"),
        CellSource::Custom(|volume, _| json!(access_modes(volume, "/spec/accessModes"))),
    ),
    Column::string(
        "Reclaim Policy",
        Description::Field("api.core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        CellSource::Text("/spec/persistentVolumeReclaimPolicy", ""),
    ),
    Column::string(
        "Status",
        Description::Field("api.core.v1.PersistentVolumeStatus", "phase"),
        CellSource::Custom(|volume, _| json!(phase(volume))),
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
        CellSource::Custom(|volume, _| json!(storage_class(volume))),
    ),
    Column::string(
        "VolumeAttributesClass",
        Description::Text("VolumeAttributesClass of the pv"),
        CellSource::Text("/spec/volumeAttributesClassName", UNSET),
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
        CellSource::Text("/spec/volumeMode", UNSET),
    )
    .wide(),
];

/// The columns of `persistentvolumeclaims`.
pub(super) const PERSISTENT_VOLUME_CLAIMS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "phase"),
        CellSource::Custom(|claim, _| json!(phase(claim))),
    ),
    Column::string(
        "Volume",
        Description::Field("api.core.v1.PersistentVolumeClaimSpec", "volumeName"),
        CellSource::Text("/spec/volumeName", ""),
    ),
    Column::string(
        "Capacity",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "capacity"),
        CellSource::Custom(|claim, _| match text(claim, "/spec/volumeName") {
            "" => json!(""),
            _ => json!(text_or(claim, "/status/capacity/storage", "0")),
        }),
    ),
    Column::string(
        "Access Modes",
        Description::Field("api.core.v1.PersistentVolumeClaimStatus", "accessModes"),
        CellSource::Custom(|claim, _| match text(claim, "/spec/volumeName") {
            "" => json!(""),
            _ => json!(access_modes(claim, "/status/accessModes")),
        }),
    ),
    Column::string(
        "StorageClass",
        Description::Text("StorageClass of the pvc"),
        CellSource::Custom(|claim, _| json!(storage_class(claim))),
    ),
    Column::string(
        "VolumeAttributesClass",
        Description::Text("VolumeAttributesClass of the pvc"),
        CellSource::Text("/spec/volumeAttributesClassName", UNSET),
    ),
    AGE,
    Column::string(
        "VolumeMode",
        Description::Field("api.core.v1.PersistentVolumeClaimSpec", "volumeMode"),
        CellSource::Text("/spec/volumeMode", UNSET),
    )
    .wide(),
];

fn phase(object: &Value) -> &str {
    if metadata::is_deleted(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn storage_class(object: &Value) -> &str {
    text_or(
        object,
        "/metadata/annotations/volume.beta.kubernetes.io~1storage-class",
        text(object, "/spec/storageClassName"),
    )
}

fn access_modes(object: &Value, pointer: &str) -> String {
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

/// The columns of `storageclasses`.
pub(super) const STORAGE_CLASSES: &[Column] = &[
    NAME.with_source(CellSource::Custom(|class, _| json!(default_class(class, DEFAULT_STORAGE_CLASS)))),
    Column::string(
        "Provisioner",
        Description::Field("api.storage.v1.StorageClass", "provisioner"),
        CellSource::Text("/provisioner", ""),
    ),
    Column::string(
        "ReclaimPolicy",
        Description::Field("api.storage.v1.StorageClass", "reclaimPolicy"),
        CellSource::Text("/reclaimPolicy", "Delete"),
    ),
    Column::string(
        "VolumeBindingMode",
        Description::Field("api.storage.v1.StorageClass", "volumeBindingMode"),
        CellSource::Text("/volumeBindingMode", "Immediate"),
    ),
    Column::string(
        "AllowVolumeExpansion",
        Description::Field("api.storage.v1.StorageClass", "allowVolumeExpansion"),
        CellSource::Flag("/allowVolumeExpansion"),
    ),
    AGE,
];

const DEFAULT_STORAGE_CLASS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const DEFAULT_INGRESS_CLASS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

fn default_class(class: &Value, annotations: &[&str]) -> String {
    let name = text(class, "/metadata/name");
    let is_default = annotations.iter().any(|annotation| metadata::annotation(class, annotation) == Some("true"));
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

/// The columns of `ingresses`.
pub(super) const INGRESSES: &[Column] = &[
    NAME,
    Column::string(
        "Class",
        Description::Text("The name of the IngressClass resource that should be used for additional configuration"),
        CellSource::Text("/spec/ingressClassName", NONE),
    ),
    Column::string(
        "Hosts",
        Description::Text("Hosts that incoming requests are matched against before the ingress rule"),
        CellSource::Custom(|ingress, _| json!(hosts(ingress))),
    ),
    Column::string(
        "Address",
        Description::Text("Address is a list containing ingress points for the load-balancer"),
        CellSource::Custom(|ingress, _| json!(ingress_addresses(ingress).join(","))),
    ),
    Column::string(
        "Ports",
        Description::Text("Ports of TLS configurations that open"),
        CellSource::Custom(|ingress, _| json!(if count(ingress, "/spec/tls") == 0 { "80" } else { "80, 443" })),
    ),
    AGE,
];

const HOSTS_SHOWN: usize = 3;

fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let named: Vec<&str> = rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    let shown = named.iter().take(HOSTS_SHOWN).copied().collect::<Vec<_>>().join(",");
    let third = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "/host").is_empty()).nth(HOSTS_SHOWN - 1);
    match (shown.as_str(), third) {
        ("", _) => "*".to_owned(),
        (_, Some((index, _))) if index + 1 < rules.len() => format!("{shown} + {} more...", rules.len() - HOSTS_SHOWN),
        _ => shown,
    }
}

/// The columns of `ingressclasses`.
pub(super) const INGRESS_CLASSES: &[Column] = &[
    NAME.with_source(CellSource::Custom(|class, _| json!(default_class(class, DEFAULT_INGRESS_CLASS)))),
    Column::string(
        "Controller",
        Description::Text("Controller that is responsible for handling this class"),
        CellSource::Text("/spec/controller", ""),
    ),
    Column::string(
        "Parameters",
        Description::Text("A reference to a resource with additional parameters"),
        CellSource::Custom(|class, _| {
            match class.pointer("/spec/parameters").filter(|parameters| parameters.is_object()) {
                None => json!(NONE),
                Some(reference) => {
                    let group = match text(reference, "/apiGroup") {
                        "" => String::new(),
                        group => format!(".{group}"),
                    };
                    json!(format!("{}{group}/{}", text(reference, "/kind"), text(reference, "/name")))
                }
            }
        }),
    ),
    AGE,
];

/// The columns of `networkpolicies`.
pub(super) const NETWORK_POLICIES: &[Column] = &[
    NAME,
    Column::string(
        "Pod-Selector",
        Description::Field("api.networking.v1.NetworkPolicySpec", "podSelector"),
        CellSource::Selector("/spec/podSelector"),
    ),
    AGE,
];

/// The columns of `endpointslices`.
pub(super) const ENDPOINT_SLICES: &[Column] = &[
    NAME,
    Column::string(
        "AddressType",
        Description::Field("api.discovery.v1.EndpointSlice", "addressType"),
        CellSource::Text("/addressType", ""),
    ),
    Column::string(
        "Ports",
        Description::Field("api.discovery.v1.EndpointSlice", "ports"),
        CellSource::Custom(|slice, _| json!(join_truncated(items(slice, "/ports").iter().map(slice_port).collect()))),
    ),
    Column::string(
        "Endpoints",
        Description::Field("api.discovery.v1.EndpointSlice", "endpoints"),
        CellSource::Custom(|slice, _| {
            let addresses = items(slice, "/endpoints").iter().flat_map(|endpoint| items(endpoint, "/addresses"));
            json!(join_truncated(addresses.filter_map(Value::as_str).map(str::to_owned).collect()))
        }),
    ),
    AGE,
];

fn slice_port(port: &Value) -> String {
    match (port.get("port").and_then(Value::as_i64), port.get("name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn join_truncated(all: Vec<String>) -> String {
    const SHOWN: usize = 3;
    match all.len() {
        0 => UNSET.to_owned(),
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN),
        _ => all.join(","),
    }
}

const fn role(kind: &'static str) -> Column {
    Column::string(
        "Role",
        Description::Field(kind, "roleRef"),
        CellSource::Custom(|binding, _| {
            json!(format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")))
        }),
    )
}

fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = items(binding, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        })
        .collect();
    names.join(", ")
}

const USERS: CellSource = CellSource::Custom(|binding, _| json!(subjects(binding, "User")));
const GROUPS: CellSource = CellSource::Custom(|binding, _| json!(subjects(binding, "Group")));
const SERVICE_ACCOUNTS: CellSource = CellSource::Custom(|binding, _| json!(subjects(binding, "ServiceAccount")));

/// The columns of `rolebindings`.
pub(super) const ROLE_BINDINGS: &[Column] = &[
    NAME,
    role("api.rbac.v1.RoleBinding"),
    AGE,
    Column::string("Users", Description::Text("Users in the roleBinding"), USERS).wide(),
    Column::string("Groups", Description::Text("Groups in the roleBinding"), GROUPS).wide(),
    Column::string("ServiceAccounts", Description::Text("ServiceAccounts in the roleBinding"), SERVICE_ACCOUNTS).wide(),
];

/// The columns of `clusterrolebindings`.
pub(super) const CLUSTER_ROLE_BINDINGS: &[Column] = &[
    NAME,
    role("api.rbac.v1.ClusterRoleBinding"),
    AGE,
    Column::string("Users", Description::Text("Users in the clusterRoleBinding"), USERS).wide(),
    Column::string("Groups", Description::Text("Groups in the clusterRoleBinding"), GROUPS).wide(),
    Column::string("ServiceAccounts", Description::Text("ServiceAccounts in the clusterRoleBinding"), SERVICE_ACCOUNTS)
        .wide(),
];

/// The columns of `priorityclasses`.
pub(super) const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    Column::integer(
        "Value",
        Description::Field("api.scheduling.v1.PriorityClass", "value"),
        CellSource::Number("/value"),
    ),
    Column::boolean(
        "Global-Default",
        Description::Field("api.scheduling.v1.PriorityClass", "globalDefault"),
        CellSource::Flag("/globalDefault"),
    ),
    AGE,
    Column::string(
        "PreemptionPolicy",
        Description::Field("api.scheduling.v1.PriorityClass", "preemptionPolicy"),
        CellSource::Text("/preemptionPolicy", ""),
    ),
];

/// The columns of `horizontalpodautoscalers`.
pub(super) const HORIZONTAL_POD_AUTOSCALERS: &[Column] = &[
    NAME,
    Column::string(
        "Reference",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"),
        CellSource::Custom(|hpa, _| {
            json!(format!("{}/{}", text(hpa, "/spec/scaleTargetRef/kind"), text(hpa, "/spec/scaleTargetRef/name")))
        }),
    ),
    Column::string(
        "Targets",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics"),
        CellSource::Custom(|hpa, _| json!(targets(hpa))),
    ),
    Column::string(
        "MinPods",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas"),
        CellSource::Custom(|hpa, _| json!(super::format::int_or_string(hpa, "/spec/minReplicas", UNSET))),
    ),
    Column::string(
        "MaxPods",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas"),
        CellSource::Number("/spec/maxReplicas"),
    ),
    Column::string(
        "Replicas",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas"),
        CellSource::Number("/status/currentReplicas"),
    ),
    AGE,
];

const METRICS_SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";

/// Formats current and target value of each metric. The stored form is `autoscaling/v2`.
fn targets(hpa: &Value) -> String {
    let specs = items(hpa, "/spec/metrics");
    if specs.is_empty() {
        // `v1` has one metric.
        let percent = |pointer: &str| hpa.pointer(pointer).and_then(Value::as_i64).map(|percent| format!("{percent}%"));
        let Some(wanted) = percent("/spec/targetCPUUtilizationPercentage") else { return NONE.to_owned() };
        let current = percent("/status/currentCPUUtilizationPercentage").unwrap_or_else(|| UNKNOWN.to_owned());
        return format!("cpu: {current}/{wanted}");
    }
    let statuses = items(hpa, "/status/currentMetrics");
    let mut shown: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| target(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let more = shown.len().saturating_sub(METRICS_SHOWN);
    shown.truncate(METRICS_SHOWN);
    let list = shown.join(", ");
    if more > 0 { format!("{list} + {more} more...") } else { list }
}

fn target(spec: &Value, status: &Value) -> String {
    let source = match text(spec, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |field: &str| text(spec, &format!("/{source}/target/{field}"));
    let current = |field: &str| text_or(status, &format!("/{source}/current/{field}"), UNKNOWN);
    let percent = |value: Option<&Value>, absent: &str| {
        value.and_then(Value::as_i64).map_or_else(|| absent.to_owned(), |percent| format!("{percent}%"))
    };
    let of_resource = matches!(source, "resource" | "containerResource");
    let name = text(spec, &format!("/{source}/name"));
    match (wanted("averageValue"), of_resource) {
        ("", true) => {
            let now = percent(status.pointer(&format!("/{source}/current/averageUtilization")), UNKNOWN);
            format!(
                "{name}: {now}/{}",
                percent(spec.pointer(&format!("/{source}/target/averageUtilization")), "<auto>")
            )
        }
        (average, true) => format!("{name}: {}/{average}", current("averageValue")),
        ("", false) => format!("{}/{}", current("value"), wanted("value")),
        (average, false) if source == "pods" => format!("{}/{average}", current("averageValue")),
        (average, false) => format!("{}/{average} (avg)", current("averageValue")),
    }
}

/// The columns of `csinodes`.
pub(super) const CSI_NODES: &[Column] = &[
    NAME,
    Column::integer(
        "Drivers",
        Description::Text("Drivers indicates the number of CSI drivers registered on the node"),
        CellSource::Count("/spec/drivers"),
    ),
    AGE,
];

/// The columns of `volumeattachments`.
pub(super) const VOLUME_ATTACHMENTS: &[Column] = &[
    NAME,
    Column::string(
        "Attacher",
        Description::Field("api.storage.v1.VolumeAttachmentSpec", "attacher"),
        CellSource::Text("/spec/attacher", ""),
    )
    .named(),
    Column::string(
        "PV",
        Description::Field("api.storage.v1.VolumeAttachmentSource", "persistentVolumeName"),
        CellSource::Text("/spec/source/persistentVolumeName", ""),
    ),
    Column::string(
        "Node",
        Description::Field("api.storage.v1.VolumeAttachmentSpec", "nodeName"),
        CellSource::Text("/spec/nodeName", ""),
    ),
    Column::boolean(
        "Attached",
        Description::Field("api.storage.v1.VolumeAttachmentStatus", "attached"),
        CellSource::Custom(|o, _| json!(flag(o, "/status/attached"))),
    ),
    AGE,
];

/// The columns of `runtimeclasses`.
pub(super) const RUNTIME_CLASSES: &[Column] =
    &[NAME, Column::string("Handler", Description::Text(""), CellSource::Text("/handler", "")), AGE];

const WEBHOOKS: Column = Column::integer(
    "Webhooks",
    Description::Text("Webhooks indicates the number of webhooks registered in this configuration"),
    CellSource::Count("/webhooks"),
);

/// The columns of both kinds of webhook configurations.
pub(super) const WEBHOOK_CONFIGURATIONS: &[Column] = &[NAME, WEBHOOKS, AGE];

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({}), "*")]
    #[case(json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}]}}), "a,b")]
    #[case(json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]}}), "a,b,c + 1 more...")]
    fn ingress_hosts(#[case] ingress: Value, #[case] shown: &str) {
        assert_eq!(hosts(&ingress), shown);
    }

    #[rstest]
    #[case(&[], "<unset>")]
    #[case(&["1", "2", "3"], "1,2,3")]
    #[case(&["1", "2", "3", "4", "5"], "1,2,3 + 2 more...")]
    fn three_are_shown(#[case] all: &[&str], #[case] shown: &str) {
        assert_eq!(join_truncated(all.iter().map(|&text| text.to_owned()).collect()), shown);
    }

    #[rstest]
    #[case(json!({}), "<none>")]
    #[case(json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]}}),
        "cpu: <unknown>/80%")]
    #[case(json!({"spec": {"metrics": [{"type": "Pods", "pods": {"target": {"averageValue": "5"}}}, {"type": "External",
        "external": {"target": {"value": "9"}}}, {"type": "Object"}]}, "status": {"currentMetrics": [{"pods": {"current":
        {"averageValue": "3"}}}]}}), "3/5, <unknown>/9 + 1 more...")]
    fn autoscaling_targets(#[case] hpa: Value, #[case] shown: &str) {
        assert_eq!(targets(&hpa), shown);
    }

    #[test]
    fn subjects_by_kind() {
        let binding = json!({"subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "v"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
        assert_eq!(subjects(&binding, "User"), "u, v");
        assert_eq!(subjects(&binding, "ServiceAccount"), "n/s");
    }
}
