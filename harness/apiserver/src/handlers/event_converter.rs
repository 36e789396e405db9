//! Converts the events of a watch by a conversion webhook.
//! See `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;

use crate::crd::{WebhookConversion, conversion};
use crate::json::Value;
use crate::negotiate::Representation;
use crate::printers::TableOptions;
use crate::registry::Resource;
use crate::request::BodyStream;
use crate::server::ApiServer;
use crate::watch::{self, EventEncoding, WatchScope};

/// Converts the objects of events to the version of a watch, and then to its representation.
pub(super) struct EventConverter {
    server: ApiServer,
    webhook: WebhookConversion,
    kind: Arc<Resource>,
    transform: Option<(Representation, TableOptions)>,
    encoding: EventEncoding,
    headers_sent: AtomicBool,
}

impl EventConverter {
    /// Takes the representation and the encoding from a view, whose events it gets in full and as JSON.
    pub(super) fn new(server: &ApiServer, webhook: &WebhookConversion, view: &mut WatchScope) -> Arc<Self> {
        Arc::new(Self {
            server: server.clone(),
            webhook: webhook.clone(),
            kind: view.kind.clone(),
            transform: view.transform.take(),
            encoding: std::mem::replace(&mut view.encoding, EventEncoding::Json),
            headers_sent: AtomicBool::new(false),
        })
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
        let own = decoded["object"]["kind"] == *self.kind.kind;
        let foreign = own && decoded["object"]["apiVersion"] != *desired;
        if !foreign && self.transform.is_none() && self.encoding == EventEncoding::Json {
            return event;
        }
        let mut object = decoded["object"].take();
        if foreign {
            object = self.kind.read_as_stored(object);
            object = match conversion::convert(&self.server, &self.webhook, vec![object], &desired).await {
                Ok(mut converted) => self.kind.read_as_own(converted.pop().unwrap_or_default()),
                Err(status) => return watch::event(self.encoding, "ERROR", &status.to_value()),
            };
        }
        if let Some((how, render)) = self.transform.filter(|_| own) {
            let headers = how == Representation::Table && !self.headers_sent.swap(true, Ordering::Relaxed);
            let render = TableOptions { now: self.server.clock().now(), ..render };
            object = watch::transformed(&self.kind, how, &render, headers, &object);
        }
        watch::event(self.encoding, decoded["type"].as_str().unwrap_or_default(), &object)
    }
}
