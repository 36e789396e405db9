//! The built-in resources in the order of kube-apiserver's discovery. See `pkg/controlplane/instance.go`.

use std::sync::Arc;

use super::builder::ResourceBuilder;
use super::served_resource::Resource;
use super::strategy::Strategy;
use super::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling, batch,
    certificates, coordination, core, custom, discovery, flowcontrol, networking, node, policy, rbac, resource,
    scheduling, storage,
};

/// The definitions of all built-in resources: groups and versions in discovery's order, resources by name.
const DEFINITIONS: &[fn() -> ResourceBuilder] = &[
    // core
    core::binding::definition,
    core::component_status::definition,
    core::config_map::definition,
    core::endpoints::definition,
    core::event::core_v1,
    core::limit_range::definition,
    core::namespace::definition,
    core::node::definition,
    core::persistent_volume_claim::definition,
    core::persistent_volume::definition,
    core::pod::definition,
    core::pod_template::definition,
    core::replication_controller::definition,
    core::resource_quota::definition,
    core::secret::definition,
    core::service_account::definition,
    core::service::definition,
    // apiregistration.k8s.io
    apiregistration::api_service::definition,
    // apps
    apps::controller_revision::definition,
    apps::daemon_set::definition,
    apps::deployment::definition,
    apps::replica_set::definition,
    apps::stateful_set::definition,
    // events.k8s.io
    core::event::events_v1,
    // authentication.k8s.io
    authentication::reviews::self_subject_review,
    authentication::reviews::token_review,
    // authorization.k8s.io
    authorization::reviews::local_subject_access_review,
    authorization::reviews::self_subject_access_review,
    authorization::reviews::self_subject_rules_review,
    authorization::reviews::subject_access_review,
    // autoscaling
    autoscaling::horizontal_pod_autoscaler::v2,
    autoscaling::horizontal_pod_autoscaler::v1,
    // batch
    batch::cron_job::definition,
    batch::job::definition,
    // certificates.k8s.io
    certificates::certificate_signing_request::definition,
    // networking.k8s.io
    networking::ingress_class::definition,
    networking::ingress::definition,
    networking::ip_address::definition,
    networking::network_policy::definition,
    networking::service_cidr::definition,
    // policy
    policy::pod_disruption_budget::definition,
    // rbac.authorization.k8s.io
    rbac::cluster_role_binding::definition,
    rbac::cluster_role::definition,
    rbac::role_binding::definition,
    rbac::role::definition,
    // storage.k8s.io
    storage::csi_driver::definition,
    storage::csi_node::definition,
    storage::csi_storage_capacity::definition,
    storage::storage_class::definition,
    storage::volume_attachment::definition,
    storage::volume_attributes_class::definition,
    // admissionregistration.k8s.io
    admissionregistration::mutating_admission_policy::definition,
    admissionregistration::mutating_admission_policy_binding::definition,
    admissionregistration::mutating_webhook_configuration::definition,
    admissionregistration::validating_admission_policy::definition,
    admissionregistration::validating_admission_policy_binding::definition,
    admissionregistration::validating_webhook_configuration::definition,
    // apiextensions.k8s.io
    apiextensions::custom_resource_definition::definition,
    // scheduling.k8s.io
    scheduling::priority_class::definition,
    // coordination.k8s.io
    coordination::lease::definition,
    // node.k8s.io
    node::runtime_class::definition,
    // discovery.k8s.io
    discovery::endpoint_slice::definition,
    // resource.k8s.io
    resource::device_class::definition,
    resource::resource_claim::definition,
    resource::resource_claim_template::definition,
    resource::resource_slice::definition,
    // flowcontrol.apiserver.k8s.io
    flowcontrol::flow_schema::definition,
    flowcontrol::priority_level_configuration::definition,
];

/// Returns all built-in resources. `definitions` is the strategy of custom resource definitions.
pub(crate) fn kinds(definitions: impl Strategy + 'static) -> Vec<Resource> {
    let definitions: Arc<dyn Strategy> = Arc::new(definitions);
    let with_strategy = |mut resource: Resource| {
        if resource.group == custom::GROUP && resource.plural == custom::RESOURCE {
            resource.strategy = definitions.clone();
        }
        resource
    };
    DEFINITIONS.iter().map(|definition| with_strategy(definition().build())).collect()
}
