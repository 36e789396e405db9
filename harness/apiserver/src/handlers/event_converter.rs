//! Converts the events of a watch by a conversion webhook.
//! See `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;

use crate::crd::{WebhookConversion, conversion};
use crate::json::{Value, json};
use crate::registry::Resource;
use crate::request::BodyStream;
use crate::server::ApiServer;

/// Converts the objects of events to the version of a watch.
pub(super) struct EventConverter {
    server: ApiServer,
    kind: Arc<Resource>,
    webhook: WebhookConversion,
}

impl EventConverter {
    pub(super) fn new(server: &ApiServer, kind: &Arc<Resource>, webhook: &WebhookConversion) -> Arc<Self> {
        Arc::new(Self { server: server.clone(), kind: kind.clone(), webhook: webhook.clone() })
    }

    /// Converts a stream of events, one after the other. An event that cannot be converted becomes an error.
    pub(super) fn convert_all(self: Arc<Self>, events: BodyStream) -> BodyStream {
        Box::pin(events.then(move |event| {
            let converter = self.clone();
            async move {
                match event {
                    Ok(event) => Ok(converter.convert(event).await),
                    Err(error) => Err(error),
                }
            }
        }))
    }

    async fn convert(&self, event: Bytes) -> Bytes {
        let Ok(mut decoded) = serde_json::from_slice::<Value>(&event) else { return event };
        let desired = self.kind.api_version();
        if decoded["object"]["apiVersion"] == *desired || decoded["object"]["kind"] != *self.kind.kind {
            return event;
        }
        let object = decoded["object"].take();
        match conversion::convert(&self.server, &self.webhook, vec![object], &desired).await {
            Ok(mut converted) => decoded["object"] = self.kind.read_as_own(converted.pop().unwrap_or_default()),
            Err(status) => decoded = json!({"type": "ERROR", "object": status.to_value()}),
        }
        format!("{decoded}\n").into()
    }
}
