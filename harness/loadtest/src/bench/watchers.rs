//! Many watchers of the same objects: the delay from a write to each watcher's event.
//!
//! Every write creates a pod with the number of the write in its name, so a watcher identifies the write of an event
//! without decoding it. The delay is measured from just before the request is sent until the watcher has read the
//! event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plumbline::time::Clock;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::bodies::{self, LoadPod};
use super::error::BenchError;
use super::http::{Connection, Endpoint, find};
use super::load::{Timings, text_member};
use super::load_shape::LoadShape;

/// Connections that write.
const WRITERS: usize = 16;
/// Time limit after the last write, after which missing events count as lost.
const EVENT_PATIENCE: Duration = Duration::from_secs(20);
/// Length of an event's beginning that contains the name.
const EVENT_BEGINNING: usize = 160;

/// Results of the watch stage.
pub(super) struct WatchResults {
    /// Delays of all events at all watchers.
    pub(super) delays: Timings,
    /// Achieved writes per second.
    pub(super) rate: f64,
    /// Durations of the writes.
    pub(super) writes: Timings,
}

/// Send times of the writes, in nanoseconds of the clock.
type SendTimes = Arc<Vec<AtomicU64>>;

/// Opens `shape.watchers` watches and writes `shape.rate` objects per second for `shape.seconds`.
pub(super) async fn run(clock: &Clock, endpoint: &Endpoint, shape: &LoadShape) -> Result<WatchResults, BenchError> {
    let count = shape.rate * shape.seconds;
    let sent: SendTimes = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let path = format!("/api/v1/namespaces/{}/pods", bodies::WATCHED);
    let mut first = endpoint.connect().await?;
    let list = first.exchange("GET", &path, &[], 200).await?;
    let version = text_member(list, "resourceVersion").unwrap_or_default().to_owned();
    let watch = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=600");
    let opened = Arc::new(Semaphore::new(0));
    let mut watchers = JoinSet::new();
    for _ in 0..shape.watchers {
        let connection = endpoint.connect().await?;
        watchers.spawn(watcher(clock.clone(), connection, watch.clone(), sent.clone(), opened.clone()));
    }
    let all_open = opened.acquire_many(u32::try_from(shape.watchers).unwrap_or(u32::MAX));
    tokio::select! {
        _ = all_open => {}
        Some(ended) = watchers.join_next() => { ended.map_err(|error| BenchError::Task(error.to_string()))??; }
    }
    let writes = write(clock, endpoint, shape, sent).await?;
    let collect = async {
        let mut delays = Timings { all: writes.all, each: Vec::with_capacity(count * shape.watchers) };
        while let Some(ended) = watchers.join_next().await {
            delays.each.append(&mut ended.map_err(|error| BenchError::Task(error.to_string()))??);
        }
        Ok(delays)
    };
    let mut delays = clock.timeout(EVENT_PATIENCE, collect).await.ok_or(BenchError::Lost)??;
    delays.each.sort_unstable();
    Ok(WatchResults { rate: writes.rate(), delays, writes })
}

async fn watcher(
    clock: Clock,
    mut connection: Connection,
    path: String,
    sent: SendTimes,
    opened: Arc<Semaphore>,
) -> Result<Vec<Duration>, BenchError> {
    let mut events = EventScanner::default();
    let mut delays = Vec::with_capacity(sent.len());
    let mut seen = vec![false; sent.len()];
    connection
        .watch(
            &path,
            || opened.add_permits(1),
            |piece| {
                let mut now = None;
                events.read(piece, |write| {
                    let Some(sent) = sent.get(write).map(|sent| sent.load(Ordering::Acquire)) else { return };
                    if !std::mem::replace(&mut seen[write], true) {
                        let now = *now.get_or_insert_with(|| clock.elapsed());
                        delays.push(now.saturating_sub(Duration::from_nanos(sent)));
                    }
                });
                delays.len() < seen.len()
            },
        )
        .await?;
    if delays.len() < seen.len() { Err(BenchError::Lost) } else { Ok(delays) }
}

async fn write(clock: &Clock, endpoint: &Endpoint, shape: &LoadShape, sent: SendTimes) -> Result<Timings, BenchError> {
    let mut writers = JoinSet::new();
    let start = clock.elapsed() + Duration::from_millis(50);
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        let clock = clock.clone();
        let sent = sent.clone();
        let rate = shape.rate.max(1);
        writers.spawn(async move {
            let path = format!("/api/v1/namespaces/{}/pods", bodies::WATCHED);
            let mut took = Vec::new();
            for number in (writer..sent.len()).step_by(WRITERS) {
                let name = format!("w-{number:08}");
                let body =
                    bodies::pod(&LoadPod { namespace: bodies::WATCHED, name: &name, app: "w", owner: None, node: 0 });
                clock.sleep_until_offset(start + Duration::from_secs(1) * number as u32 / rate as u32).await;
                let begun = clock.elapsed();
                sent[number].store(begun.as_nanos() as u64, Ordering::Release);
                connection.exchange("POST", &path, &[body.as_bytes()], 201).await?;
                took.push(clock.elapsed().saturating_sub(begun));
            }
            Ok(took)
        });
    }
    let mut took = Timings::default();
    while let Some(ended) = writers.join_next().await {
        took.each.append(&mut ended.map_err(|error| BenchError::Task(error.to_string()))??);
    }
    took.all = clock.elapsed().saturating_sub(start);
    took.each.sort_unstable();
    Ok(took)
}

/// Extracts write numbers from a stream of events, one per line, that arrives in chunks.
#[derive(Default)]
struct EventScanner {
    beginning: Vec<u8>,
}

impl EventScanner {
    fn read(&mut self, mut piece: &[u8], mut each: impl FnMut(usize)) {
        while !piece.is_empty() {
            let line = piece;
            let length = memchr::memchr(b'\n', piece).map_or(piece.len(), |end| end + 1);
            piece = &piece[length..];
            let room = EVENT_BEGINNING - self.beginning.len();
            self.beginning.extend_from_slice(&line[..length.min(room)]);
            if line[..length].ends_with(b"\n") {
                if let Some(number) = write_number(&self.beginning) {
                    each(number);
                }
                self.beginning.clear();
            }
        }
    }
}

fn write_number(event: &[u8]) -> Option<usize> {
    let begin = br#""name":"w-"#;
    let from = find(event, begin)? + begin.len();
    std::str::from_utf8(event.get(from..from + 8)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_recognized_across_pieces() {
        let text = b"{\"object\":{\"metadata\":{\"name\":\"w-00000007\"}}}\n{\"type\":\"BOOKMARK\"}\n{\"object\":{\"metadata\":{\"name\":\"w-00000123\",\"x\":1}}}\n{\"name\":\"w-000";
        for size in 1..text.len() {
            let mut events = EventScanner::default();
            let mut seen = Vec::new();
            text.chunks(size).for_each(|piece| events.read(piece, |number| seen.push(number)));
            assert_eq!(seen, [7, 123], "in pieces of {size}");
        }
    }
}
