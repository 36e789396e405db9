//! Converts the events of a watch by a conversion webhook, and selects them by what the webhook returns.
//! See `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;

use crate::crd::{WebhookConversion, conversion};
use crate::json::Value;
use crate::metadata;
use crate::negotiate::Representation;
use crate::printers::TableOptions;
use crate::record::DeliveredObject;
use crate::registry::Resource;
use crate::request::BodyStream;
use crate::selectors::ListSelector;
use crate::server::ApiServer;
use crate::status::Status;
use crate::store::EventType;
use crate::watch::{self, EventEncoding, WatchScope};

/// Converts the objects of events to the version of a watch, and then to its representation.
pub(super) struct EventConverter {
    server: ApiServer,
    webhook: WebhookConversion,
    kind: Arc<Resource>,
    /// The selector, if a conversion can change what it selects.
    selection: Option<ListSelector>,
    /// Entry of the request in the transcript, if the events that are sent are recorded here.
    request: Option<usize>,
    transform: Option<(Representation, TableOptions)>,
    encoding: EventEncoding,
    headers_sent: AtomicBool,
}

impl EventConverter {
    /// Takes the representation, the encoding and the selector from a view, whose events it gets in full and as JSON.
    pub(super) fn new(server: &ApiServer, webhook: &WebhookConversion, view: &mut WatchScope) -> Arc<Self> {
        let selects = view.selection.reads_content();
        view.with_previous = selects;
        let identity = view.selection.by_identity();
        Arc::new(Self {
            server: server.clone(),
            webhook: webhook.clone(),
            kind: view.kind.clone(),
            selection: selects.then(|| std::mem::replace(&mut view.selection, identity)),
            request: if selects { view.request.take() } else { None },
            transform: view.transform.take(),
            encoding: std::mem::replace(&mut view.encoding, EventEncoding::Json),
            headers_sent: AtomicBool::new(false),
        })
    }

    /// Converts a stream of events, one after the other. An event that cannot be converted becomes an error.
    pub(super) fn convert_all(self: Arc<Self>, events: BodyStream) -> BodyStream {
        let converted = events.then(move |event| {
            let converter = self.clone();
            async move {
                match event {
                    Ok(event) => converter.convert(event).await.map(Ok),
                    Err(error) => Some(Err(error)),
                }
            }
        });
        Box::pin(converted.filter_map(std::future::ready))
    }

    /// Converts an event; `None` if its object is not selected.
    async fn convert(&self, event: Bytes) -> Option<Bytes> {
        let Ok(mut decoded) = serde_json::from_slice::<Value>(&event) else { return Some(event) };
        let object = decoded["object"].take();
        let own = object["kind"] == *self.kind.kind;
        let Some(event_type) = event_type(&decoded).filter(|_| own) else {
            // A bookmark or an error.
            let object = if own { self.transformed(object) } else { object };
            let event_type = decoded["type"].as_str().unwrap_or_default();
            return Some(watch::event(self.encoding, event_type, &object));
        };
        let previous = decoded.get_mut("previous").map(Value::take);
        let (object, previous) = match self.converted(object, previous).await {
            Ok(both) => both,
            Err(status) => return Some(watch::event(self.encoding, "ERROR", &status.to_value())),
        };
        let (event_type, object) = self.selected(event_type, object, previous)?;
        self.record(event_type, &object);
        Some(watch::event(self.encoding, event_type.as_str(), &self.transformed(object)))
    }

    /// Returns an object and its previous state in the version of the watch.
    async fn converted(&self, object: Value, previous: Option<Value>) -> Result<(Value, Option<Value>), Status> {
        let objects = std::iter::once(object).chain(previous).map(|object| self.kind.read_as_stored(object));
        let desired = self.kind.api_version();
        let converted = conversion::convert(&self.server, &self.webhook, objects.collect(), &desired).await?;
        let mut converted = converted.into_iter().map(|object| self.kind.read_as_own(object));
        Ok((converted.next().unwrap_or_default(), converted.next()))
    }

    /// Returns the event that the selector makes of a change.
    fn selected(&self, event_type: EventType, object: Value, previous: Option<Value>) -> Option<(EventType, Value)> {
        let Some(selection) = &self.selection else { return Some((event_type, object)) };
        let matches = |object: &Value| selection.matches_object(&self.kind, object);
        let after = event_type != EventType::Deleted && matches(&object);
        let before = previous.filter(matches);
        match (before, after) {
            (None, true) => Some((EventType::Added, object)),
            (Some(_), true) => Some((EventType::Modified, object)),
            (Some(_), false) if event_type == EventType::Deleted => Some((EventType::Deleted, object)),
            (Some(mut before), false) => {
                let version = metadata::resource_version(&object);
                metadata::fields_mut(&mut before).insert("resourceVersion", version.into());
                Some((EventType::Deleted, before))
            }
            (None, false) => None,
        }
    }

    fn record(&self, event_type: EventType, object: &Value) {
        let Some(request) = self.request else { return };
        let delivered = DeliveredObject {
            kind: event_type.into(),
            namespace: Some(metadata::namespace(object)).filter(|namespace| !namespace.is_empty()).map(Arc::from),
            name: metadata::name(object).into(),
            resource_version: metadata::resource_version(object).parse().unwrap_or(0),
        };
        self.server.transcript().delivery(self.server.clock().elapsed(), request, delivered);
    }

    /// Returns an object in the representation of the watch.
    fn transformed(&self, object: Value) -> Value {
        let Some((how, render)) = self.transform else { return object };
        let headers = how == Representation::Table && !self.headers_sent.swap(true, Ordering::Relaxed);
        let render = TableOptions { now: self.server.clock().now(), ..render };
        watch::transformed(&self.kind, how, &render, headers, &object)
    }
}

/// Returns the type of an event about an object.
fn event_type(event: &Value) -> Option<EventType> {
    let types = [EventType::Added, EventType::Modified, EventType::Deleted];
    types.into_iter().find(|known| event["type"] == *known.as_str())
}
