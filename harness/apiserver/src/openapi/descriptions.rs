//! Descriptions of the built-in types and of their fields (feature `descriptions`).
//! See `types_swagger_doc_generated.go` in `staging/src/k8s.io/api`.
//!
//! They are upstream's own texts, which the crate `k8s-openapi` carries; `definitions.tsv` has everything else.

use std::collections::BTreeMap;

use k8s_openapi::schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

/// The types' schemas as `k8s-openapi` derives them, of which only the descriptions are used, by name.
pub(super) struct Descriptions(BTreeMap<String, Value>);

/// Adds the schemas of the types, and of the types that they refer to, to the generator.
macro_rules! add {
    ($generator:ident, $($module:path: $($name:ident),+;)+) => {
        $($({
            use $module as module;
            $generator.subschema_for::<module::$name>();
        })+)+
    };
}

impl Descriptions {
    /// Derives the descriptions of all types that are served.
    pub(super) fn new() -> Self {
        let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
        add_types(&mut generator);
        Self(generator.take_definitions(false).into_iter().collect())
    }

    /// Returns the description of the type with this full name, or of one of its fields.
    pub(super) fn get(&self, name: &str, field: Option<&str>) -> Option<&str> {
        let schema = self.0.get(name)?;
        let described = field.map_or(Some(schema), |field| schema.get("properties")?.get(field))?;
        described.get("description")?.as_str()
    }
}

fn add_types(generator: &mut SchemaGenerator) {
    add! {
        generator,
        k8s_openapi::api::admissionregistration::v1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration;
        k8s_openapi::api::apps::v1: ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet;
        k8s_openapi::api::authentication::v1: SelfSubjectReview, TokenRequest, TokenReview;
        k8s_openapi::api::authorization::v1: LocalSubjectAccessReview, SelfSubjectAccessReview,
            SelfSubjectRulesReview, SubjectAccessReview;
        k8s_openapi::api::autoscaling::v1: HorizontalPodAutoscaler, Scale;
        k8s_openapi::api::autoscaling::v2: HorizontalPodAutoscaler;
        k8s_openapi::api::batch::v1: CronJob, Job;
        k8s_openapi::api::certificates::v1: CertificateSigningRequest;
        k8s_openapi::api::coordination::v1: Lease;
        k8s_openapi::api::core::v1: Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace,
            Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota,
            Secret, Service, ServiceAccount;
        k8s_openapi::api::discovery::v1: EndpointSlice;
        k8s_openapi::api::events::v1: Event;
        k8s_openapi::api::flowcontrol::v1: FlowSchema, PriorityLevelConfiguration;
        k8s_openapi::api::networking::v1: IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR;
        k8s_openapi::api::node::v1: RuntimeClass;
        k8s_openapi::api::policy::v1: Eviction, PodDisruptionBudget;
        k8s_openapi::api::rbac::v1: ClusterRole, ClusterRoleBinding, Role, RoleBinding;
        k8s_openapi::api::resource::v1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        k8s_openapi::api::scheduling::v1: PriorityClass;
        k8s_openapi::api::storage::v1: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment,
            VolumeAttributesClass;
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition;
        k8s_openapi::apimachinery::pkg::apis::meta::v1: DeleteOptions, ListMeta, Status;
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1: APIService;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_fields_have_descriptions() {
        let descriptions = Descriptions::new();
        let pod = "io.k8s.api.core.v1.Pod";
        assert!(descriptions.get(pod, None).is_some_and(|text| text.starts_with("Pod is a collection of containers")));
        assert!(descriptions.get(pod, Some("spec")).is_some_and(|text| text.contains("desired behavior")));
        assert_eq!(descriptions.get(pod, Some("absent")), None);
    }
}
