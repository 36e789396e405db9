//! The objects of events, of both APIs: `makeEvent` in `staging/src/k8s.io/client-go/tools/record/event.go` and in
//! `staging/src/k8s.io/client-go/tools/events/event_recorder.go`.

use jiff::Timestamp;

use crate::event_sink::Event;
use crate::json::{Value, json};
use crate::object_lifecycle::rfc3339;

/// The component whose events are of `events.k8s.io`; all others write those of the core API.
pub(super) const SCHEDULER: &str = "default-scheduler";

/// Returns the namespace of events about an object: `default` for objects that are in none.
pub(super) fn namespace_of(about: &Value) -> &str {
    about["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// Returns the path of the events about an object.
pub(super) fn collection(about: &Value) -> String {
    format!("/api/v1/namespaces/{}/events", namespace_of(about))
}

impl Event {
    /// Returns `Warning` or `Normal`.
    pub(super) fn type_name(&self) -> &'static str {
        if self.warning { "Warning" } else { "Normal" }
    }

    /// Returns what the scheduler did when it recorded the event.
    pub(super) fn action(&self) -> &'static str {
        match self.reason.as_str() {
            "FailedScheduling" => "Scheduling",
            "Preempted" => "Preempting",
            _ => "Binding",
        }
    }

    /// Returns the object of an event that was seen first at a time; `number` tells events of the same moment apart.
    pub(super) fn object(&self, first: Timestamp, number: i128) -> Value {
        let name = format!("{}.{:x}", self.about["name"].as_str().unwrap_or_default(), first.as_nanosecond() + number);
        let mut event = json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": namespace_of(&self.about), "name": name}, "involvedObject": self.about.clone(),
            "type": self.type_name(), "reason": self.reason.as_str(), "message": self.message.as_str(),
            "reportingComponent": self.component});
        if !self.related.is_null() {
            event["related"] = self.related.clone();
        }
        if self.component == SCHEDULER {
            event["eventTime"] = format!("{first:.6}").into();
            event["action"] = self.action().into();
            event["reportingInstance"] = SCHEDULER.into();
            return event;
        }
        event["source"] = json!({"component": self.component});
        if !self.host.is_empty() {
            event["source"]["host"] = self.host.as_str().into();
            event["reportingInstance"] = self.host.as_str().into();
        }
        (event["firstTimestamp"], event["lastTimestamp"]) = (rfc3339(first).into(), rfc3339(first).into());
        event["count"] = 1.into();
        event
    }
}
