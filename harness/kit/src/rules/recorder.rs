//! Limits and retries of Events.
//!
//! Sources: client-go `tools/record/events_cache.go` (`defaultSpamBurst`, `defaultSpamQPS`), `tools/record/event.go`
//! (`maxTriesPerEvent`, `defaultSleepDuration`).

use std::time::Duration;

use serde_json::Value;

/// Number of Events of a type about an object that a recorder sends at once. It counts further ones and sends one of
/// them in each [`SPAM_REFILL`].
pub const SPAM_BURST: u32 = 25;
/// Time after which one more of these may be sent.
pub const SPAM_REFILL: Duration = Duration::from_mins(5);
/// Number of tries to send an Event.
const TRIES: u32 = 12;
/// Time between them.
const SLEEP: Duration = Duration::from_secs(10);

/// Time for which the recorder tries to send an Event.
pub const SENDING: Duration = SLEEP.saturating_mul(TRIES);

/// Returns the number of Events of a type about an object that may have been sent this long after the first one.
#[must_use]
pub const fn most_events(since_first: Duration) -> u64 {
    SPAM_BURST as u64 + since_first.as_secs() / SPAM_REFILL.as_secs()
}

/// Returns the object that an Event is about.
#[must_use]
pub fn object_of(event: &Value) -> &Value {
    if event["regarding"].is_null() { &event["involvedObject"] } else { &event["regarding"] }
}

/// Returns kind and name of the object, and the reason, of an Event: `Pod/a`, `TaintManagerEviction`.
#[must_use]
pub fn event_of(event: &Value) -> (String, String) {
    let about = object_of(event);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (format!("{}/{}", text(&about["kind"]), text(&about["name"])), text(&event["reason"]))
}

/// Returns the number of times that an Event has been counted.
#[must_use]
pub fn count_of(event: &Value) -> i64 {
    event["count"].as_i64().unwrap_or(1)
}
