//! The events that loops record, on their way to the loop that writes them. See
//! `staging/src/k8s.io/client-go/tools/record/event.go`.

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::json::Value;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// The object that it is about.
    pub(crate) about: Value,
    /// Another object that has to do with it; null if there is none.
    pub(crate) related: Value,
    pub(crate) component: &'static str,
    /// The node of a kubelet.
    pub(crate) host: String,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Event {
    /// Creates a warning about the object of a reference.
    pub(crate) fn warning(about: Value, component: &'static str, reason: &str, message: String) -> Self {
        Self { warning: true, ..Self::new(about, component, reason, message) }
    }

    /// Creates an event about the object of a reference.
    pub(crate) fn new(about: Value, component: &'static str, reason: &str, message: String) -> Self {
        let reason = reason.to_owned();
        Self { about, related: Value::Null, component, host: String::new(), warning: false, reason, message }
    }
}

/// Returns the component that records the events about a kind of workload.
pub(crate) fn component_of(kind: &str) -> &'static str {
    match kind {
        "CronJob" => "cronjob-controller",
        "DaemonSet" => "daemonset-controller",
        "Deployment" => "deployment-controller",
        "Job" => "job-controller",
        "ReplicaSet" => "replicaset-controller",
        "StatefulSet" => "statefulset-controller",
        _ => "replication-controller",
    }
}

/// Passes the events that loops record on to `publish_events`; without it, they are dropped.
#[derive(Debug, Default)]
pub(crate) struct EventSink(Mutex<Option<mpsc::UnboundedSender<Event>>>);

impl EventSink {
    /// Makes a loop receive the events.
    pub(crate) fn attach(&self, sender: mpsc::UnboundedSender<Event>) {
        *self.0.lock() = Some(sender);
    }

    /// Records an event.
    pub(crate) fn record(&self, event: Event) {
        if let Some(sender) = &*self.0.lock() {
            // The receiver is gone when the loop has ended.
            _ = sender.send(event);
        }
    }
}
