//! Descriptions of the built-in types and of their fields; without the feature `descriptions` there are none.
//! See `types_swagger_doc_generated.go` in `staging/src/k8s.io/api`.
//!
//! They are upstream's own texts, which the crate `k8s-openapi` carries; `openapi/definitions.tsv` has everything else.

#[cfg(feature = "descriptions")]
pub(crate) use texts::of;

/// Without the feature `descriptions` there are none.
#[cfg(not(feature = "descriptions"))]
pub(crate) fn of(_name: &str, _field: Option<&str>) -> Option<&'static str> {
    None
}

/// Returns the description of a field, without enumerated values; `kind` is the name of the type without `io.k8s.`.
pub(crate) fn of_field(kind: &str, field: &str) -> &'static str {
    let text = of(&format!("io.k8s.{kind}"), Some(field)).unwrap_or_default();
    text.split("\n\nPossible enum values:").next().unwrap_or_default()
}

#[cfg(feature = "descriptions")]
mod texts {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use k8s_openapi::schemars::{SchemaGenerator, generate::SchemaSettings};
    use serde_json::Value;

    /// The descriptions of a type and of its fields.
    struct TypeDescription {
        own: Option<String>,
        fields: BTreeMap<String, String>,
    }

    /// All types that are served, by full name.
    static TYPES: LazyLock<BTreeMap<String, TypeDescription>> = LazyLock::new(derive);

    /// Returns the description of the type with this full name, or of one of its fields.
    pub(crate) fn of(name: &str, field: Option<&str>) -> Option<&'static str> {
        let description = TYPES.get(name)?;
        match field {
            Some(field) => description.fields.get(field).map(String::as_str),
            None => description.own.as_deref(),
        }
    }

    /// Takes the descriptions from the schemas that `k8s-openapi` derives.
    fn derive() -> BTreeMap<String, TypeDescription> {
        let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
        add_types(&mut generator);
        let text = |schema: &Value| schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let description = |(name, schema): (String, Value)| {
            let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let fields = fields.filter_map(|(field, schema)| Some((field.clone(), text(schema)?))).collect();
            (name, TypeDescription { own: text(&schema), fields })
        };
        generator.take_definitions(false).into_iter().map(description).collect()
    }

    /// Adds the schemas of the types, and of the types that they refer to, to the generator.
    macro_rules! add {
        ($generator:ident, $($module:path: $($name:ident),+;)+) => {
            $($({
                use $module as module;
                $generator.subschema_for::<module::$name>();
            })+)+
        };
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
        use super::of;

        #[test]
        fn types_and_fields_have_descriptions() {
            let pod = "io.k8s.api.core.v1.Pod";
            assert!(of(pod, None).is_some_and(|text| text.starts_with("Pod is a collection of containers")));
            assert!(of(pod, Some("spec")).is_some_and(|text| text.contains("desired behavior")));
            assert_eq!(of(pod, Some("absent")), None);
        }
    }
}
