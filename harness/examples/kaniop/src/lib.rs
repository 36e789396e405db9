//! Starts [Kaniop](https://github.com/pando85/kaniop), the operator of the identity provider Kanidm, as its own program
//! does: all of its code comes from its released crates, unmodified. It keeps stateful sets, services, ingresses and
//! secrets for each `Kanidm`, watches twelve kinds, and has finalizers, a status and Events.

use k8s_openapi::api::core::v1::Namespace;
use kaniop_operator::controller::{SUBSCRIBE_BUFFER_SIZE, State, check_api_queryable, create_subscriber};
use kaniop_operator::kanidm::controller::{self, CONTROLLER_ID};
use kaniop_operator::kanidm::crd::Kanidm;
use kaniop_operator::metrics::Metrics;
use kube::Client;

/// Runs the operator until its streams end, without its web server for metrics.
pub async fn run(client: Client) {
    let namespaces = check_api_queryable::<Namespace>(client.clone()).await;
    let kanidms = check_api_queryable::<Kanidm>(client.clone()).await;
    let namespace_reflector = create_subscriber::<Namespace>(SUBSCRIBE_BUFFER_SIZE);
    let kanidm_reflector = create_subscriber::<Kanidm>(SUBSCRIBE_BUFFER_SIZE);
    let metrics = Metrics::new(&opentelemetry::global::meter("kaniop"), &[CONTROLLER_ID]);
    let stores = (namespace_reflector.store.clone(), kanidm_reflector.store.clone());
    let state = State::new(metrics, stores.0, stores.1, Some(client.clone()));
    controller::run(state, client, namespaces, namespace_reflector, kanidms, kanidm_reflector).await;
}
