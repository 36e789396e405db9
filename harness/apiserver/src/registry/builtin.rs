//! The built-in resources, as the default discovery of kube-apiserver 1.36 lists them.
//! See `pkg/controlplane/instance.go`.

use super::addresses::{IpAddress, ServiceCidr};
use super::admission_defaults;
use super::builder::{ResourceBuilder, resource};
use super::config_map_and_secret::{ConfigMap, Secret};
use super::csr::CertificateSigningRequest;
use super::defaults::{self, Defaults, Job, PriorityClass};
use super::endpoints::Endpoints;
use super::event::{CONVERSION, CoreV1Event, EventsV1Event};
use super::flow_schema::FlowSchema;
use super::generic::{Generation, Generic};
use super::lease::Lease;
use super::namespace::Namespace;
use super::node::Node;
use super::pdb::PodDisruptionBudget;
use super::persistent_volume::PersistentVolume;
use super::pod::{self, Pod};
use super::service::Service;
use super::workloads::{
    daemonset::DaemonSet, deployment::Deployment, replicaset::ReplicaSet, replicationcontroller::ReplicationController,
    statefulset::StatefulSet,
};
use super::{CREATE_ONLY_VERBS, NameFormat, Resource, Strategy};
use super::{
    access_rules, admission_group, autoscaler_rules, autoscaling, batch, bounds, config_map_and_secret, device_rules,
    device_slice_rules, flow_rules, networking, slice_rules, storage_rules, volume_claims,
};

/// Returns all built-in resources, groups and versions in discovery's order. `definitions` is the strategy of custom
/// resource definitions.
pub(crate) fn kinds(definitions: impl Strategy + 'static) -> Vec<Resource> {
    let groups = [
        core_group(),
        core_v1_workloads(),
        apiregistration_group(),
        apps_group(),
        events_group(),
        authentication_group(),
        authorization_group(),
        autoscaling_group(),
        batch_group(),
        certificates_group(),
        networking_group(),
        policy_group(),
        rbac_group(),
        storage_group(),
        admission_group::resources(),
        apiextensions_group(definitions),
        scheduling_group(),
        coordination_group(),
        node_group(),
        discovery_group(),
        resource_group(),
        flowcontrol_group(),
    ];
    groups.into_iter().flatten().map(|b| b.0).collect()
}

fn core_group() -> Vec<ResourceBuilder> {
    vec![
        resource("", "v1", "bindings", "Binding", "io.k8s.api.core.v1.Binding").verbs(CREATE_ONLY_VERBS),
        resource("", "v1", "componentstatuses", "ComponentStatus", "io.k8s.api.core.v1.ComponentStatus")
            .cluster()
            .short(&["cs"])
            .verbs(&["get", "list"]),
        resource("", "v1", "configmaps", "ConfigMap", "io.k8s.api.core.v1.ConfigMap")
            .short(&["cm"])
            .hash("qFsyl6wFWjQ=")
            .rules(ConfigMap),
        resource("", "v1", "endpoints", "Endpoints", "io.k8s.api.core.v1.Endpoints")
            .short(&["ep"])
            .hash("fWeeMqaN/OA=")
            .rules(Endpoints),
        resource("", "v1", "events", "Event", "io.k8s.api.core.v1.Event")
            .short(&["ev"])
            .hash("r2yiGXH7wu8=")
            .fields(&[
                ("involvedObject.kind", ""),
                ("involvedObject.namespace", ""),
                ("involvedObject.name", ""),
                ("involvedObject.uid", ""),
                ("involvedObject.apiVersion", ""),
                ("involvedObject.resourceVersion", ""),
                ("involvedObject.fieldPath", ""),
                ("reason", ""),
                ("reportingComponent", ""),
                ("source", ""),
                ("type", ""),
            ])
            .rules(CoreV1Event),
        resource("", "v1", "limitranges", "LimitRange", "io.k8s.api.core.v1.LimitRange")
            .short(&["limits"])
            .hash("EBKMFVe6cwo=")
            .rules(
                Defaults::new(Generic { create_on_update: true, ..Generic::NEW }, defaults::limit_range)
                    .check_with(bounds::limit_range),
            ),
        resource("", "v1", "namespaces", "Namespace", "io.k8s.api.core.v1.Namespace")
            .cluster()
            .short(&["ns"])
            .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
            .sub("finalize", "", "", "Namespace", &["update"])
            .status()
            .resets("finalize", &[&["status"]])
            .hash("Q3oi5N2YM8M=")
            .fields(&[("status.phase", "")])
            .rules(Namespace),
        resource("", "v1", "nodes", "Node", "io.k8s.api.core.v1.Node")
            .cluster()
            .short(&["no"])
            .sub("proxy", "", "", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"])
            .status()
            .hash("XwShjMxG9Fs=")
            .fields(&[("spec.unschedulable", "false")])
            .rules(Node),
        resource(
            "",
            "v1",
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            "io.k8s.api.core.v1.PersistentVolumeClaim",
        )
        .short(&["pvc"])
        .status()
        .hash("QWTyNDq0dC4=")
        .rules(Defaults {
            finalizer: defaults::CLAIM_FINALIZER,
            ..Defaults::new(Generic { status: true, revalidates: true, ..Generic::NEW }, defaults::default_claim)
                .check_with(volume_claims::validate)
                .drop_with(volume_claims::complete_data_sources)
        }),
        resource("", "v1", "persistentvolumes", "PersistentVolume", "io.k8s.api.core.v1.PersistentVolume")
            .cluster()
            .short(&["pv"])
            .status()
            .hash("HN/zwEC+JgM=")
            .rules(PersistentVolume),
    ]
}

fn replication_controllers() -> ResourceBuilder {
    resource("", "v1", "replicationcontrollers", "ReplicationController", "io.k8s.api.core.v1.ReplicationController")
        .short(&["rc"])
        .categories(&["all"])
        .scale()
        .status()
        .hash("Jond2If31h0=")
        .fields(&[("status.replicas", "0")])
        .rules(ReplicationController)
}

/// The core group from pods on, in discovery's order.
fn core_v1_workloads() -> Vec<ResourceBuilder> {
    vec![
        resource("", "v1", "pods", "Pod", "io.k8s.api.core.v1.Pod")
            .short(&["po"])
            .categories(&["all"])
            .sub("attach", "", "", "PodAttachOptions", &["create", "get"])
            .sub("binding", "", "", "Binding", CREATE_ONLY_VERBS)
            .sub("ephemeralcontainers", "", "", "Pod", &["get", "patch", "update"])
            .sub("eviction", "policy", "v1", "Eviction", CREATE_ONLY_VERBS)
            .sub("exec", "", "", "PodExecOptions", &["create", "get"])
            .sub("log", "", "", "Pod", &["get"])
            .sub("portforward", "", "", "PodPortForwardOptions", &["create", "get"])
            .sub("proxy", "", "", "PodProxyOptions", &["create", "delete", "get", "patch", "update"])
            .sub("resize", "", "", "Pod", &["get", "patch", "update"])
            .status()
            .resets("status", &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
            .hash("xPOwRZ+Yhw8=")
            .fields(&[
                ("spec.nodeName", ""),
                ("spec.restartPolicy", ""),
                ("spec.schedulerName", ""),
                ("spec.serviceAccountName", ""),
                ("spec.hostNetwork", "false"),
                ("status.phase", ""),
                ("status.podIP", ""),
                ("status.podIPs", ""),
                ("status.nominatedNodeName", ""),
            ])
            .rules(Pod),
        resource("", "v1", "podtemplates", "PodTemplate", "io.k8s.api.core.v1.PodTemplate").hash("LIXB2x4IFpk=").rules(
            Defaults::new(Generic { generation: Generation::AllButStatus, ..Generic::NEW }, defaults::pod_template)
                .check_with(pod::validate_pod_template)
                .warn_with(pod::warnings::pod_template_warnings),
        ),
        replication_controllers(),
        resource("", "v1", "resourcequotas", "ResourceQuota", "io.k8s.api.core.v1.ResourceQuota")
            .short(&["quota"])
            .status()
            .hash("8uhSgffRX6w=")
            .rules(Defaults::new(Generic { status: true, ..Generic::NEW }, |_| {}).check_with(bounds::resource_quota)),
        resource("", "v1", "secrets", "Secret", "io.k8s.api.core.v1.Secret")
            .hash("S6u1pOWzb84=")
            .fields(&[("type", "")])
            .rules(Secret),
        resource("", "v1", "serviceaccounts", "ServiceAccount", "io.k8s.api.core.v1.ServiceAccount")
            .short(&["sa"])
            .sub("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE_ONLY_VERBS)
            .hash("pbx9ZvyFpBE=")
            .rules(
                Defaults::new(Generic { revalidates: true, ..Generic::NEW }, |_| {})
                    .drop_with(config_map_and_secret::keep_names_of_secrets),
            ),
        resource("", "v1", "services", "Service", "io.k8s.api.core.v1.Service")
            .short(&["svc"])
            .categories(&["all"])
            .sub("proxy", "", "", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
            .status()
            .hash("0/CO1lhkEBI=")
            .fields(&[("spec.clusterIP", ""), ("spec.type", "")])
            .rules(Service),
    ]
}

fn apiregistration_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "apiregistration.k8s.io",
            "v1",
            "apiservices",
            "APIService",
            "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
        )
        .cluster()
        .categories(&["api-extensions"])
        .status_without_metadata()
        .hash("InPBPD7+PqM=")
        .rules(Defaults::new(
            Generic { status: true, unconditional: false, namespaced: false, ..Generic::NEW },
            defaults::api_service,
        )),
    ]
}

fn apps_group() -> Vec<ResourceBuilder> {
    vec![
        resource("apps", "v1", "controllerrevisions", "ControllerRevision", "io.k8s.api.apps.v1.ControllerRevision")
            .hash("85nkx63pcBU=")
            .rules(Generic { revalidates: true, ..Generic::NEW }),
        resource("apps", "v1", "daemonsets", "DaemonSet", "io.k8s.api.apps.v1.DaemonSet")
            .short(&["ds"])
            .categories(&["all"])
            .status()
            .hash("dd7pWHUlMKQ=")
            .rules(DaemonSet),
        resource("apps", "v1", "deployments", "Deployment", "io.k8s.api.apps.v1.Deployment")
            .short(&["deploy"])
            .categories(&["all"])
            .scale()
            .status()
            .resets("status", &[&["spec"], &["metadata", "labels"]])
            .hash("8aSe+NMegvE=")
            .rules(Deployment),
        resource("apps", "v1", "replicasets", "ReplicaSet", "io.k8s.api.apps.v1.ReplicaSet")
            .short(&["rs"])
            .categories(&["all"])
            .scale()
            .status()
            .hash("P1RzHs8/mWQ=")
            .rules(ReplicaSet),
        resource("apps", "v1", "statefulsets", "StatefulSet", "io.k8s.api.apps.v1.StatefulSet")
            .short(&["sts"])
            .categories(&["all"])
            .scale()
            .status()
            .hash("H+vl74LkKdo=")
            .rules(StatefulSet),
    ]
}

fn events_group() -> Vec<ResourceBuilder> {
    vec![
        resource("events.k8s.io", "v1", "events", "Event", "io.k8s.api.events.v1.Event")
            .short(&["ev"])
            .hash("r2yiGXH7wu8=")
            .fields(&[
                ("regarding.kind", ""),
                ("regarding.namespace", ""),
                ("regarding.name", ""),
                ("regarding.uid", ""),
                ("regarding.apiVersion", ""),
                ("regarding.resourceVersion", ""),
                ("regarding.fieldPath", ""),
                ("reason", ""),
                ("reportingController", ""),
                ("type", ""),
            ])
            .rules(EventsV1Event)
            .with_conversion(&CONVERSION)
            .stored_as("", "events"),
    ]
}

fn authentication_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            "io.k8s.api.authentication.v1.SelfSubjectReview",
        )
        .cluster()
        .verbs(CREATE_ONLY_VERBS),
        resource(
            "authentication.k8s.io",
            "v1",
            "tokenreviews",
            "TokenReview",
            "io.k8s.api.authentication.v1.TokenReview",
        )
        .cluster()
        .verbs(CREATE_ONLY_VERBS),
    ]
}

fn authorization_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "authorization.k8s.io",
            "v1",
            "localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        )
        .verbs(CREATE_ONLY_VERBS),
        resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        )
        .cluster()
        .verbs(CREATE_ONLY_VERBS),
        resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        )
        .cluster()
        .verbs(CREATE_ONLY_VERBS),
        resource(
            "authorization.k8s.io",
            "v1",
            "subjectaccessreviews",
            "SubjectAccessReview",
            "io.k8s.api.authorization.v1.SubjectAccessReview",
        )
        .cluster()
        .verbs(CREATE_ONLY_VERBS),
    ]
}

fn autoscaling_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
        )
        .short(&["hpa"])
        .categories(&["all"])
        .status()
        .hash("qwQve8ut294=")
        .rules(
            Defaults::new(Generic { status: true, ..Generic::NEW }, defaults::autoscaler)
                .check_with(autoscaler_rules::autoscaler),
        ),
        resource(
            "autoscaling",
            "v1",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
        )
        .short(&["hpa"])
        .categories(&["all"])
        .status()
        .hash("qwQve8ut294=")
        .with_conversion(&autoscaling::CONVERSION)
        .rules(
            Defaults::new(Generic { status: true, ..Generic::NEW }, autoscaling::default_v1)
                .check_with(autoscaler_rules::common),
        ),
    ]
}

fn batch_group() -> Vec<ResourceBuilder> {
    vec![
        resource("batch", "v1", "cronjobs", "CronJob", "io.k8s.api.batch.v1.CronJob")
            .short(&["cj"])
            .categories(&["all"])
            .status()
            .hash("sd5LIXh4Fjs=")
            .rules(
                Defaults::new(
                    Generic { generation: Generation::Spec, status: true, ..Generic::NEW },
                    defaults::cron_job,
                )
                .check_with(batch::validate_cron_job)
                .warn_with(batch::cron_job_warnings),
            ),
        resource("batch", "v1", "jobs", "Job", "io.k8s.api.batch.v1.Job")
            .categories(&["all"])
            .status()
            .hash("mudhfqk/qZY=")
            .fields(&[("status.successful", "0")])
            .rules(Job),
    ]
}

fn certificates_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "certificates.k8s.io",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            "io.k8s.api.certificates.v1.CertificateSigningRequest",
        )
        .cluster()
        .short(&["csr"])
        .sub("approval", "", "", "CertificateSigningRequest", &["get", "patch", "update"])
        .status()
        .resets("", &[&["spec"], &["status"]])
        .resets("approval", &[&["spec"], &["status", "certificate"]])
        .resets("status", &[&["spec"], &["status", "conditions"]])
        .hash("95fRKMXA+00=")
        .fields(&[("spec.signerName", "")])
        .rules(CertificateSigningRequest),
    ]
}

fn networking_group() -> Vec<ResourceBuilder> {
    vec![
        resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", "io.k8s.api.networking.v1.IngressClass")
            .cluster()
            .hash("l/iqIbDgFyQ=")
            .rules(
                Defaults::new(
                    Generic { generation: Generation::Spec, namespaced: false, ..Generic::NEW },
                    defaults::ingress_class,
                )
                .check_with(networking::ingress_class),
            ),
        resource("networking.k8s.io", "v1", "ingresses", "Ingress", "io.k8s.api.networking.v1.Ingress")
            .short(&["ing"])
            .status()
            .hash("39NQlfNR+bo=")
            .rules(
                Defaults::new(
                    Generic { generation: Generation::Spec, status: true, revalidates: true, ..Generic::NEW },
                    defaults::ingress,
                )
                .check_with(networking::ingress),
            ),
        resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", "io.k8s.api.networking.v1.IPAddress")
            .cluster()
            .short(&["ip"])
            .hash("3f/plJFChNE=")
            .rules(IpAddress),
        resource(
            "networking.k8s.io",
            "v1",
            "networkpolicies",
            "NetworkPolicy",
            "io.k8s.api.networking.v1.NetworkPolicy",
        )
        .short(&["netpol"])
        .hash("YpfwF18m1G8=")
        .rules(
            Defaults::new(Generic { generation: Generation::Spec, ..Generic::NEW }, defaults::network_policy)
                .check_with(networking::network_policy),
        ),
        resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", "io.k8s.api.networking.v1.ServiceCIDR")
            .cluster()
            .status_without_metadata()
            .hash("gNLvruQhW2g=")
            .rules(ServiceCidr),
    ]
}

fn policy_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            "io.k8s.api.policy.v1.PodDisruptionBudget",
        )
        .short(&["pdb"])
        .status()
        .hash("EVWiDmWqyJw=")
        .rules(PodDisruptionBudget),
    ]
}

fn rbac_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
            "io.k8s.api.rbac.v1.ClusterRoleBinding",
        )
        .cluster()
        .hash("48tpQ8gZHFc=")
        .rules(
            Defaults::new(Generic { namespaced: false, ..RBAC_STRATEGY }, defaults::role_binding)
                .check_with(access_rules::cluster_role_binding)
                .check_update_with(access_rules::role_stays),
        ),
        resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "io.k8s.api.rbac.v1.ClusterRole")
            .cluster()
            .hash("bYE5ZWDrJ44=")
            .rules(
                Defaults::new(Generic { namespaced: false, ..RBAC_STRATEGY }, |_| {})
                    .check_with(access_rules::cluster_role),
            ),
        resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "io.k8s.api.rbac.v1.RoleBinding")
            .hash("eGsCzGH6b1g=")
            .rules(
                Defaults::new(RBAC_STRATEGY, defaults::role_binding)
                    .check_with(access_rules::role_binding)
                    .check_update_with(access_rules::role_stays),
            ),
        resource("rbac.authorization.k8s.io", "v1", "roles", "Role", "io.k8s.api.rbac.v1.Role")
            .hash("7FuwZcIIItM=")
            .rules(Defaults::new(RBAC_STRATEGY, |_| {}).check_with(access_rules::role)),
    ]
}

/// The rules of roles and role bindings.
const RBAC_STRATEGY: Generic =
    Generic { create_on_update: true, names: NameFormat::PathSegment, revalidates: true, ..Generic::NEW };

/// Objects of the cluster whose updates name the version that they replace.
const CONDITIONAL: Generic = Generic { unconditional: false, namespaced: false, ..Generic::NEW };

fn storage_group() -> Vec<ResourceBuilder> {
    vec![
        resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "io.k8s.api.storage.v1.CSIDriver")
            .cluster()
            .hash("hL6j/rwBV5w=")
            .rules(Defaults::new(CONDITIONAL, defaults::csi_driver).check_with(storage_rules::csi_driver)),
        resource("storage.k8s.io", "v1", "csinodes", "CSINode", "io.k8s.api.storage.v1.CSINode")
            .cluster()
            .hash("Pe62DkZtjuo=")
            .rules(CONDITIONAL),
        resource(
            "storage.k8s.io",
            "v1",
            "csistoragecapacities",
            "CSIStorageCapacity",
            "io.k8s.api.storage.v1.CSIStorageCapacity",
        )
        .hash("xeVl+2Ly1kE=")
        .rules(
            Defaults::new(Generic { unconditional: false, ..Generic::NEW }, |_| {})
                .check_with(storage_rules::csi_storage_capacity)
                .check_update_with(storage_rules::csi_storage_capacity_update),
        ),
        resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", "io.k8s.api.storage.v1.StorageClass")
            .cluster()
            .short(&["sc"])
            .hash("K+m6uJwbjGY=")
            .rules(
                Defaults::new(Generic { namespaced: false, ..Generic::NEW }, defaults::storage_class)
                    .check_with(storage_rules::storage_class)
                    .check_update_with(storage_rules::storage_class_update),
            ),
        resource(
            "storage.k8s.io",
            "v1",
            "volumeattachments",
            "VolumeAttachment",
            "io.k8s.api.storage.v1.VolumeAttachment",
        )
        .cluster()
        .status_without_metadata()
        .hash("tJx/ezt6UDU=")
        .rules(
            Defaults::new(
                Generic { status: true, unconditional: false, namespaced: false, ..Generic::NEW },
                defaults::volume_attachment,
            )
            .check_with(storage_rules::volume_attachment),
        ),
        resource(
            "storage.k8s.io",
            "v1",
            "volumeattributesclasses",
            "VolumeAttributesClass",
            "io.k8s.api.storage.v1.VolumeAttributesClass",
        )
        .cluster()
        .short(&["vac"])
        .hash("tIjydgKBC5w=")
        .rules(
            Defaults::new(Generic { namespaced: false, ..Generic::NEW }, |_| {})
                .check_with(storage_rules::volume_attributes_class)
                .check_update_with(storage_rules::volume_attributes_class_update),
        ),
    ]
}

fn apiextensions_group(definitions: impl Strategy + 'static) -> Vec<ResourceBuilder> {
    vec![
        resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        )
        .cluster()
        .short(&["crd", "crds"])
        .categories(&["api-extensions"])
        .status_without_metadata()
        .hash("jfWCUB31mvA=")
        .rules(definitions),
    ]
}

fn scheduling_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            "io.k8s.api.scheduling.v1.PriorityClass",
        )
        .cluster()
        .short(&["pc"])
        .hash("1QwjyaZjj3Y=")
        .rules(PriorityClass),
    ]
}

fn coordination_group() -> Vec<ResourceBuilder> {
    vec![
        resource("coordination.k8s.io", "v1", "leases", "Lease", "io.k8s.api.coordination.v1.Lease")
            .hash("gqkMMb/YqFM=")
            .rules(Lease),
    ]
}

fn node_group() -> Vec<ResourceBuilder> {
    vec![
        resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "io.k8s.api.node.v1.RuntimeClass")
            .cluster()
            .hash("WQTu1GL3T2Q=")
            .rules(
                Defaults::new(
                    Generic { unconditional: false, create_on_update: true, namespaced: false, ..Generic::NEW },
                    |_| {},
                )
                .check_with(pod::runtime_class::validate),
            ),
    ]
}

fn discovery_group() -> Vec<ResourceBuilder> {
    vec![
        resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "io.k8s.api.discovery.v1.EndpointSlice")
            .hash("qgS0xkrxYAI=")
            .rules(
                Defaults::new(
                    Generic { generation: Generation::AllButStatus, ..Generic::NEW },
                    defaults::endpoint_slice,
                )
                .check_with(slice_rules::endpoint_slice),
            ),
    ]
}

fn resource_group() -> Vec<ResourceBuilder> {
    vec![
        resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "io.k8s.api.resource.v1.DeviceClass")
            .cluster()
            .hash("Yk2PTc1Ybxk=")
            .rules(
                Defaults::new(Generic { generation: Generation::Spec, namespaced: false, ..Generic::NEW }, |_| {})
                    .check_with(device_rules::device_class),
            ),
        resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "io.k8s.api.resource.v1.ResourceClaim")
            .status_without_metadata()
            .hash("wgAZaHcZxUg=")
            .rules(
                Defaults::new(Generic { status: true, ..Generic::NEW }, admission_defaults::resource_claim)
                    .check_with(device_rules::claim)
                    .check_among_others_with(device_rules::claim_access)
                    .check_update_with(device_rules::spec_stays),
            ),
        resource(
            "resource.k8s.io",
            "v1",
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
            "io.k8s.api.resource.v1.ResourceClaimTemplate",
        )
        .hash("TuzjC49aUfM=")
        .rules(
            Defaults::new(Generic::NEW, admission_defaults::resource_claim_template)
                .check_with(device_rules::claim_template)
                .check_among_others_with(device_rules::claim_template_access)
                .check_update_with(device_rules::spec_stays),
        ),
        resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "io.k8s.api.resource.v1.ResourceSlice")
            .cluster()
            .hash("KsC072WgaEY=")
            .fields(&[("spec.nodeName", ""), ("spec.driver", "")])
            .rules(
                Defaults::new(Generic { generation: Generation::Spec, namespaced: false, ..Generic::NEW }, |_| {})
                    .check_with(device_slice_rules::slice)
                    .check_update_with(device_slice_rules::slice_update)
                    .drop_with(device_slice_rules::drop_disabled_fields),
            ),
    ]
}

fn flowcontrol_group() -> Vec<ResourceBuilder> {
    vec![
        resource(
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "flowschemas",
            "FlowSchema",
            "io.k8s.api.flowcontrol.v1.FlowSchema",
        )
        .cluster()
        .status_without_metadata()
        .hash("GJVAJZSZBIw=")
        .rules(FlowSchema),
        resource(
            "flowcontrol.apiserver.k8s.io",
            "v1",
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
        )
        .cluster()
        .status_without_metadata()
        .hash("Kir5PVfvNeI=")
        .rules(
            Defaults::new(
                Generic { generation: Generation::Spec, status: true, namespaced: false, ..Generic::NEW },
                defaults::priority_level,
            )
            .check_with(flow_rules::priority_level),
        ),
    ]
}
