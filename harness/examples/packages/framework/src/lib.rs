//! A controller on Materialize's framework `k8s-controller`, a released crate, unmodified: finalizer,
//! random requeue times, Events about failures, leader election. It gives each Secret with the label `copy` a copy in
//! the namespace `backup`, and removes the copy with the Secret.

use k8s_controller::events::EventRecorder;
use k8s_controller::{Context, Controller, TraceMetadata};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::watcher;

/// The namespace of the copies.
const BACKUP: &str = "backup";

/// Copies Secrets.
struct Copier;

fn copy_name(secret: &Secret) -> String {
    format!("{}.{}", secret.namespace().unwrap_or_default(), secret.name_any())
}

#[async_trait::async_trait]
impl Context for Copier {
    type Resource = Secret;
    type Error = kube::Error;

    const FINALIZER_NAME: Option<&'static str> = Some("example.org/copier");

    async fn apply(
        &self,
        client: Client,
        secret: &Secret,
        _: &mut TraceMetadata,
    ) -> Result<Option<Action>, kube::Error> {
        let name = copy_name(secret);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let copy = Secret { metadata, data: secret.data.clone(), type_: secret.type_.clone(), ..Secret::default() };
        let copies: Api<Secret> = Api::namespaced(client, BACKUP);
        copies.patch(&name, &PatchParams::apply("copier"), &Patch::Apply(&copy)).await?;
        // The framework chooses the time of the next look.
        Ok(None)
    }

    async fn cleanup(
        &self,
        client: Client,
        secret: &Secret,
        _: &mut TraceMetadata,
    ) -> Result<Option<Action>, kube::Error> {
        let copies: Api<Secret> = Api::namespaced(client, BACKUP);
        match copies.delete(&copy_name(secret), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(|_| None),
        }
    }
}

/// Runs the controller until its streams end.
pub async fn run(client: Client) {
    let labelled = watcher::Config::default().labels("copy");
    let events = std::sync::Arc::new(EventRecorder::new(client.clone(), "copier".into()));
    Controller::namespaced_all(client, Copier, labelled).with_event_recorder(events).run().await;
}
