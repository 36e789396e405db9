//! Watches on their way from the server to the subject: translated, filtered and subject to watch faults.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, Stream};
use plumbline::metadata;
use plumbline::time::Clock;
use plumbline_apiserver::ResourceId;
use plumbline_apiserver::faults::{Faults, WatchEnd, WatchGateState, WatchRegistration};
use serde_json::Value;

use super::error::ServerError;
use super::tracker::version;

/// Time to wait for late events when held events are released: the server may deliver them later than other observers
/// saw them.
const STRAGGLERS: Duration = Duration::from_millis(150);

/// Chunks of a response body as they arrive.
pub(super) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ServerError>> + Send>>;

/// Splits a response body into lines.
pub(super) struct LineStream {
    pieces: ByteStream,
    buffer: BytesMut,
    /// Number of buffered bytes that are known to contain no line end.
    searched: usize,
}

impl LineStream {
    pub(super) fn new(pieces: ByteStream) -> Self {
        Self { pieces, buffer: BytesMut::new(), searched: 0 }
    }
}

impl Stream for LineStream {
    type Item = Result<Bytes, ServerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let this = &mut *self;
            if let Some(at) = this.buffer[this.searched..].iter().position(|byte| *byte == b'\n') {
                let line = this.buffer.split_to(this.searched + at + 1).freeze();
                this.searched = 0;
                return Poll::Ready(Some(Ok(line)));
            }
            this.searched = this.buffer.len();
            match this.pieces.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(piece))) => this.buffer.extend_from_slice(&piece),
                Poll::Ready(Some(Err(why))) => return Poll::Ready(Some(Err(why))),
                Poll::Ready(None) if this.buffer.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => {
                    this.searched = 0;
                    return Poll::Ready(Some(Ok(this.buffer.split().freeze())));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Translates an event; `None` if it is not about the fixture's objects.
pub(super) type EventFilter = Box<dyn Fn(Value) -> Option<Value> + Send>;

/// Records an event that is forwarded.
pub(super) type EventRecorder = Box<dyn Fn(&Value) + Send>;

/// A watch of the subject, with the watch faults applied.
pub(super) struct WatchRelay {
    lines: LineStream,
    sort: EventFilter,
    record: EventRecorder,
    faults: Arc<Faults>,
    pass: WatchRegistration,
    /// Events that were not delivered yet.
    backlog: VecDeque<Value>,
    merging: Option<MergeWindow>,
    /// Fires when a fault breaks the watch.
    breaks: Option<Timer>,
    ended: Option<Result<(), ServerError>>,
    clock: Clock,
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Limits for collecting events that will be merged.
struct MergeWindow {
    up_to: u64,
    patience: Timer,
}

fn timer(clock: &Clock, length: Duration) -> Timer {
    let clock = clock.clone();
    async move { clock.sleep(length).await }.boxed()
}

impl WatchRelay {
    pub(super) fn new(
        lines: LineStream,
        (sort, record): (EventFilter, EventRecorder),
        faults: Arc<Faults>,
        resource: &ResourceId,
        break_after: Option<Duration>,
        clock: Clock,
    ) -> Self {
        let pass = faults.enter(resource);
        let breaks = break_after.map(|after| timer(&clock, after));
        Self { lines, sort, record, faults, pass, backlog: VecDeque::new(), merging: None, breaks, ended: None, clock }
    }

    /// Reads all events that have arrived.
    fn gather(&mut self, context: &mut Context<'_>) {
        while self.ended.is_none() {
            match Pin::new(&mut self.lines).poll_next(context) {
                Poll::Ready(Some(Ok(line))) => match serde_json::from_slice(&line) {
                    Ok(event) => self.backlog.extend((self.sort)(event)),
                    Err(error) => self.ended = Some(Err(ServerError::Event(error.to_string()))),
                },
                Poll::Ready(Some(Err(why))) => self.ended = Some(Err(why)),
                Poll::Ready(None) => self.ended = Some(Ok(())),
                Poll::Pending => return,
            }
        }
    }

    /// Returns true if all events to merge have arrived, or the time limit for them has passed.
    fn is_gathered(&mut self, context: &mut Context<'_>) -> bool {
        let Some(merging) = &mut self.merging else { return true };
        let newest = self.backlog.iter().map(|event| version(&event["object"])).max().unwrap_or_default();
        if newest < merging.up_to && self.ended.is_none() && merging.patience.as_mut().poll(context).is_pending() {
            return false;
        }
        merge(&mut self.backlog, merging.up_to);
        self.merging = None;
        true
    }
}

impl Stream for WatchRelay {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let broken = || Poll::Ready(Some(Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))));
        if this.breaks.as_mut().is_some_and(|breaks| breaks.as_mut().poll(context).is_ready()) {
            return broken();
        }
        this.gather(context);
        match this.faults.pass(&mut this.pass, context) {
            WatchGateState::End(WatchEnd::Closed | WatchEnd::Drained) => return Poll::Ready(None),
            WatchGateState::End(WatchEnd::Broken) => return broken(),
            WatchGateState::Held => return Poll::Pending,
            WatchGateState::Coalesce(up_to) => {
                this.merging = Some(MergeWindow { up_to, patience: timer(&this.clock, STRAGGLERS) });
            }
            // Bookmarks are the real server's.
            WatchGateState::Open | WatchGateState::Bookmark => {}
        }
        if !this.is_gathered(context) {
            return Poll::Pending;
        }
        if let Some(event) = this.backlog.pop_front() {
            (this.record)(&event);
            let mut line = event.to_string();
            line.push('\n');
            return Poll::Ready(Some(Ok(line.into())));
        }
        match this.ended.take() {
            None => Poll::Pending,
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(_)) => broken(),
        }
    }
}

impl Drop for WatchRelay {
    fn drop(&mut self) {
        self.faults.leave(&self.pass);
    }
}

/// Merges the events up to a resourceVersion: keeps one event per object, with its last state.
fn merge(events: &mut VecDeque<Value>, up_to: u64) {
    let mut merged: BTreeMap<String, (bool, Value)> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut rest = VecDeque::new();
    for event in events.drain(..) {
        let kind = event["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED") || version(&event["object"]) > up_to {
            if kind != "BOOKMARK" {
                rest.push_back(event);
            }
            continue;
        }
        let object = &event["object"];
        let name = format!("{}/{}", metadata::namespace(object).unwrap_or_default(), metadata::name(object));
        let was_new = event["type"] == "ADDED";
        let new_at_first = merged.get(&name).map_or(was_new, |(new, _)| *new);
        order.retain(|other| *other != name);
        order.push(name.clone());
        merged.insert(name, (new_at_first, event));
    }
    for name in order {
        let Some((new, mut event)) = merged.remove(&name) else { continue };
        let kind = match (new, event["type"] == "DELETED") {
            (true, true) => continue,
            (true, false) => "ADDED",
            (false, true) => "DELETED",
            (false, false) => "MODIFIED",
        };
        event["type"] = kind.into();
        events.push_back(event);
    }
    events.append(&mut rest);
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use futures::StreamExt as _;
    use futures::stream;
    use plumbline::time::{epoch, run_virtual};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, name: &str, version: u64) -> Value {
        json!({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": version.to_string()}}})
    }

    fn described(events: &VecDeque<Value>) -> Vec<String> {
        let text = |event: &Value| {
            format!("{} {}@{}", event["type"], metadata::name(&event["object"]), version(&event["object"]))
        };
        events.iter().map(|event| text(event).replace('"', "")).collect()
    }

    #[rstest]
    #[case::last_state(&[("MODIFIED", "a", 1), ("MODIFIED", "b", 2), ("MODIFIED", "a", 3)], &["MODIFIED b@2", "MODIFIED a@3"])]
    #[case::new_and_gone(&[("ADDED", "a", 1), ("DELETED", "a", 2)], &[])]
    #[case::recreated(&[("DELETED", "a", 1), ("ADDED", "a", 2)], &["MODIFIED a@2"])]
    #[case::new_and_changed(&[("ADDED", "a", 1), ("MODIFIED", "a", 2)], &["ADDED a@2"])]
    #[case::later_ones_stay(&[("ADDED", "a", 1), ("MODIFIED", "a", 9)], &["ADDED a@1", "MODIFIED a@9"])]
    #[case::no_bookmarks(&[("BOOKMARK", "", 5), ("MODIFIED", "a", 6)], &["MODIFIED a@6"])]
    fn merging(#[case] events: &[(&str, &str, u64)], #[case] expected: &[&str]) {
        let mut events: VecDeque<Value> =
            events.iter().map(|(kind, name, version)| event(kind, name, *version)).collect();
        merge(&mut events, 8);
        assert_eq!(described(&events), expected);
    }

    #[tokio::test]
    async fn lines_across_pieces() {
        let pieces = ["{\"a\"", ":1}\n{\"b\":2}\n", "tail"].map(|piece| Ok(Bytes::from(piece)));
        let lines: Vec<_> = LineStream::new(Box::pin(stream::iter(pieces))).map(Result::unwrap).collect().await;
        assert_eq!(lines, ["{\"a\":1}\n", "{\"b\":2}\n", "tail"]);
    }

    #[test]
    fn gates_hold_merge_and_break() {
        run_virtual(async {
            let clock = Clock::virtual_from(epoch());
            let faults = Arc::new(Faults::new(0));
            let resource = ResourceId::new("", "pods");
            let (sender, receiver) = futures::channel::mpsc::unbounded::<Result<Bytes, ServerError>>();
            let sort: EventFilter = Box::new(|event| (metadata::name(&event["object"]) != "foreign").then_some(event));
            let lines = LineStream::new(Box::pin(receiver));
            let sent = Arc::new(Mutex::new(Vec::new()));
            let record: EventRecorder = {
                let sent = sent.clone();
                Box::new(move |event| sent.lock().push(version(&event["object"])))
            };
            let mut watch = WatchRelay::new(lines, (sort, record), faults.clone(), &resource, None, clock);
            let send = |kind, name, version| {
                let line = format!("{}\n", event(kind, name, version));
                sender.unbounded_send(Ok(line.into())).unwrap();
            };
            send("ADDED", "foreign", 1);
            send("ADDED", "a", 2);
            assert!(watch.next().await.unwrap().is_ok());
            faults.hold(&resource);
            send("MODIFIED", "a", 3);
            send("MODIFIED", "a", 4);
            assert!(futures::poll!(watch.next()).is_pending());
            faults.release(&resource, Some(4));
            let line = watch.next().await.unwrap().unwrap();
            let event: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(version(&event["object"]), 4);
            assert_eq!(*sent.lock(), [2, 4], "what is sent is recorded");
            faults.end_watches(None, WatchEnd::Broken);
            assert!(watch.next().await.unwrap().is_err());
            drop(watch);
            assert_eq!(faults.open_watches(None), 0);
        })
        .unwrap();
    }
}
