//! Three watches that keep [`ServerState`] up to date. Apart from the scenarios they are the only load of this program
//! on the server during a measurement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use plumbline::time::Clock;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::error::ScaleError;
use super::event::{LineSplitter, ObjectPage, WatchEvent, WatchedKind, WatchedObject};
use super::server_state::ServerState;
use crate::bench::bodies;
use crate::bench::http::{Connection, Endpoint};
use crate::bench::load::text_member;

/// Requested length of a watch, in seconds: longer than any run.
const WATCH_SECONDS: u32 = 86_400;
/// Start a watch from the server's memory: a server with an old etcd may be slow to confirm that it has the newest
/// version.
const FROM_MEMORY: &str = "0";

/// Pods per page when they are listed again.
const PAGE: usize = 5_000;
/// Consecutive ends of a watch without progress before it fails.
const ENDS: u32 = 8;
/// Pause before the next attempt, multiplied by the number of consecutive ends.
const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// Follows a server until dropped.
pub(super) struct ServerFollower {
    state: Arc<Mutex<ServerState>>,
    changed: Arc<Notify>,
    resumed: Arc<AtomicU64>,
    watches: JoinSet<Result<(), ScaleError>>,
}

impl ServerFollower {
    /// Starts to follow. Nodes and budgets are reported from the beginning, pods from now on.
    ///
    /// A server under load ends slow watches and forgets versions: a watch resumes where it ended, or from a new list.
    pub(super) async fn start(clock: &Clock, endpoint: &Endpoint, state: ServerState) -> Result<Self, ScaleError> {
        let state = Arc::new(Mutex::new(state));
        let changed = Arc::new(Notify::new());
        let resumed = Arc::new(AtomicU64::new(0));
        let mut watches = JoinSet::new();
        let opened = Arc::new(Semaphore::new(0));
        for kind in WatchedKind::ALL {
            let mut connection = endpoint.connect().await?;
            let version = if kind == WatchedKind::Pods {
                // Existing pods are not of interest: the watch starts at the current version.
                let list = connection.exchange("GET", &format!("{}?limit=1", kind.path()), &[], 200).await?;
                text_member(list, "resourceVersion").unwrap_or_default().to_owned()
            } else {
                FROM_MEMORY.to_owned()
            };
            let clock = clock.clone();
            let endpoint = endpoint.clone();
            let resumed = resumed.clone();
            let state = state.clone();
            let changed = changed.clone();
            let opened = opened.clone();
            let watch = ResourceWatch { kind, version, clock, endpoint, state, changed, resumed, opened };
            watches.spawn(watch.follow(connection));
        }
        let mut this = Self { state, changed, resumed, watches };
        let open = opened.acquire_many(u32::try_from(WatchedKind::ALL.len()).unwrap_or(u32::MAX));
        tokio::select! {
            _ = open => {}
            error = ended(&mut this.watches) => return Err(error),
        }
        Ok(this)
    }

    /// Returns the number of times a watch ended and was resumed.
    pub(super) fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Returns the state of the server.
    pub(super) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    /// Waits for an event.
    ///
    /// # Errors
    ///
    /// Returns an error if a watch failed permanently.
    pub(super) async fn changed(&mut self) -> Result<(), ScaleError> {
        tokio::select! {
            biased;
            error = ended(&mut self.watches) => Err(error),
            () = self.changed.notified() => Ok(()),
        }
    }
}

async fn ended(watches: &mut JoinSet<Result<(), ScaleError>>) -> ScaleError {
    match watches.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => ScaleError::Bench(crate::bench::BenchError::Task(error.to_string())),
        Some(Ok(Ok(()))) | None => std::future::pending().await,
    }
}

/// Reasons for the end of a watch.
#[derive(Debug, PartialEq, Eq)]
enum WatchEnd {
    /// The connection was closed by either side.
    Cut(String),
    /// Its version is too old.
    Gone,
    /// The watch failed permanently.
    Wrong(String),
}

/// One of the three watches.
struct ResourceWatch {
    kind: WatchedKind,
    /// The last version received.
    version: String,
    clock: Clock,
    endpoint: Endpoint,
    state: Arc<Mutex<ServerState>>,
    changed: Arc<Notify>,
    resumed: Arc<AtomicU64>,
    opened: Arc<Semaphore>,
}

impl ResourceWatch {
    /// Watches until a permanent failure; never returns `Ok`.
    async fn follow(mut self, connection: Connection) -> Result<(), ScaleError> {
        let mut ends = 0;
        let mut connection = Some(connection);
        loop {
            let before = self.version.clone();
            let end = match self.read(connection.take()).await {
                WatchEnd::Gone => self.again().await,
                end => end,
            };
            ends = if self.version == before { ends + 1 } else { 1 };
            match end {
                WatchEnd::Cut(why) if ends >= ENDS => return Err(ScaleError::Watch { path: self.kind.path(), why }),
                WatchEnd::Wrong(why) => return Err(ScaleError::Watch { path: self.kind.path(), why }),
                WatchEnd::Cut(_) | WatchEnd::Gone => {}
            }
            self.resumed.fetch_add(1, Ordering::Relaxed);
            self.clock.sleep(WATCH_PAUSE * ends).await;
        }
    }

    /// Reads the watch from its version to its end, over its own connection.
    async fn read(&mut self, connection: Option<Connection>) -> WatchEnd {
        let mut connection = match connection {
            Some(connection) => connection,
            None => match self.endpoint.connect().await {
                Ok(connection) => connection,
                Err(error) => return WatchEnd::Cut(error.to_string()),
            },
        };
        let Self { kind, version, clock, state, changed, opened, .. } = self;
        let path = format!("{}?watch=1&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}", kind.path());
        let mut lines = LineSplitter::default();
        let mut failure = None;
        let read = connection.watch(
            &path,
            || opened.add_permits(1),
            |piece| {
                let now = clock.elapsed();
                let mut state = state.lock();
                lines.read(piece, |line| {
                    if failure.is_none() {
                        failure = take(&mut state, *kind, version, line, now);
                    }
                });
                drop(state);
                changed.notify_one();
                failure.is_none()
            },
        );
        match (read.await, failure) {
            (_, Some(end)) => end,
            (Ok(()), None) => WatchEnd::Cut("closed by the server".to_owned()),
            (Err(crate::bench::BenchError::Refused { status: 410, .. }), None) => WatchEnd::Gone,
            (Err(error), None) => WatchEnd::Cut(error.to_string()),
        }
    }

    /// Restarts after the server forgot the version: nodes and budgets by a watch from its memory, pods by a list.
    async fn again(&mut self) -> WatchEnd {
        if self.kind != WatchedKind::Pods {
            FROM_MEMORY.clone_into(&mut self.version);
            return WatchEnd::Gone;
        }
        match self.list().await {
            Ok(()) => WatchEnd::Gone,
            Err(error) => WatchEnd::Cut(error.to_string()),
        }
    }

    /// Lists the pods: those that are missing are gone.
    async fn list(&mut self) -> Result<(), crate::bench::BenchError> {
        let mut connection = self.endpoint.connect().await?;
        let mut present = BTreeMap::new();
        let mut token = String::new();
        let version = loop {
            let path = format!("{}?limit={PAGE}&continue={token}", self.kind.path());
            let page = connection.exchange("GET", &path, &[], 200).await?;
            let page: ObjectPage<'_> = serde_json::from_slice(page)
                .map_err(|error| crate::bench::BenchError::Reply(format!("GET {path}: {error}")))?;
            for WatchedObject { metadata, .. } in &page.items {
                if let Some(pod) = bodies::pod_number(&metadata.name) {
                    present.insert(pod, metadata.deletion_timestamp.is_some());
                }
            }
            token = page.metadata.next.into_owned();
            if token.is_empty() {
                break page.metadata.resource_version.into_owned();
            }
        };
        self.version = version;
        self.state.lock().pods_are(&present, self.clock.elapsed());
        self.changed.notify_one();
        Ok(())
    }
}

/// Processes a line and its version; returns the reason if it ends the watch.
fn take(
    state: &mut ServerState,
    kind: WatchedKind,
    version: &mut String,
    line: &[u8],
    now: Duration,
) -> Option<WatchEnd> {
    match serde_json::from_slice::<WatchEvent<'_>>(line) {
        Ok(event) if event.kind == "ERROR" => {
            let gone = event.object.code == Some(410);
            Some(if gone { WatchEnd::Gone } else { WatchEnd::Wrong(String::from_utf8_lossy(line).into_owned()) })
        }
        Ok(event) => {
            event.object.metadata.resource_version.as_ref().clone_into(version);
            state.take(kind, &event, now);
            None
        }
        Err(error) => {
            Some(WatchEnd::Wrong(format!("{error} in {}", String::from_utf8_lossy(&line[..line.len().min(200)]))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::server_state::ExpectedDeletion;
    use wiremock::matchers::{method, path, query_param, query_param_is_missing};
    use wiremock::{Mock, MockServer, ResponseTemplate};

    fn pod(number: usize) -> String {
        bodies::pod_name("shop-00000", number)
    }

    fn event(kind: &str, number: usize, version: u32) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"{}\",\"resourceVersion\":\"{version}\"}}}}}}\n",
            pod(number)
        )
    }

    /// Serves the watch of pods from `version` on, once.
    async fn watch_from(server: &MockServer, version: &str, body: String) {
        let mock = Mock::given(path("/api/v1/pods")).and(query_param("watch", "1"));
        mock.and(query_param("resourceVersion", version))
            .respond_with(ResponseTemplate::new(200).set_body_string(body))
            .up_to_n_times(1)
            .expect(1)
            .mount(server)
            .await;
    }

    async fn endpoint(server: &MockServer) -> Endpoint {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: '{}'}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{}}}}]\n",
            server.uri()
        );
        std::fs::write(&file, text).unwrap();
        Endpoint::from_kubeconfig(&file, "test").await.unwrap()
    }

    /// Three pods are expected to go. One deletion is reported before the watch is cut off, one by the resumed watch,
    /// and one only by its absence from the list after the version is too old.
    #[tokio::test]
    async fn a_watch_that_ends_goes_on_and_one_that_is_too_old_lists_again() {
        let server = MockServer::start().await;
        let list = |next: &str, items: &str| {
            ResponseTemplate::new(200).set_body_string(format!(
                "{{\"metadata\":{{\"resourceVersion\":\"9\",\"continue\":\"{next}\"}},\"items\":[{items}]}}"
            ))
        };
        let get = || Mock::given(method("GET")).and(path("/api/v1/pods")).and(query_param_is_missing("watch"));
        get()
            .and(query_param("limit", "1"))
            .respond_with(
                ResponseTemplate::new(200).set_body_string("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}"),
            )
            .mount(&server)
            .await;
        let there = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", pod(4));
        let pages = get().and(query_param("limit", PAGE.to_string()));
        pages.and(query_param("continue", "")).respond_with(list("more", &there)).expect(1).mount(&server).await;
        get().and(query_param("continue", "more")).respond_with(list("", "")).expect(1).mount(&server).await;
        // The last line is cut off in its middle.
        let cut = event("DELETED", 2, 7);
        watch_from(&server, "5", format!("{}{}", event("DELETED", 1, 6), &cut[..cut.len() / 2])).await;
        watch_from(&server, "6", cut).await;
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#;
        watch_from(&server, "7", format!("{expired}\n")).await;
        watch_from(&server, "9", event("DELETED", 4, 10)).await;
        for (kind, everything) in [("nodes", "/api/v1/nodes"), ("budgets", WatchedKind::Budgets.path())] {
            let hang = ResponseTemplate::new(200).set_delay(Duration::from_hours(1));
            Mock::given(path(everything)).respond_with(hang).named(kind).mount(&server).await;
        }

        let state = Arc::new(Mutex::new(ServerState::new(0, 0)));
        state.lock().expect_to_go([1, 2, 3, 4], ExpectedDeletion::Gone);
        let endpoint = endpoint(&server).await;
        let watch = ResourceWatch {
            kind: WatchedKind::Pods,
            version: "5".to_owned(),
            clock: Clock::wall(),
            endpoint: endpoint.clone(),
            state: state.clone(),
            changed: Arc::default(),
            resumed: Arc::default(),
            opened: Arc::new(Semaphore::new(0)),
        };
        let resumed = watch.resumed.clone();
        let connection = endpoint.connect().await.unwrap();
        // From version 10 on nothing is served: the watch fails with a reason.
        let error = watch.follow(connection).await.unwrap_err().to_string();
        assert_eq!(state.lock().left().pods, 0);
        assert!(error.starts_with("the watch of /api/v1/pods ended: GET /api/v1/pods?watch=1"), "{error}");
        assert!(error.contains("404"), "{error}");
        assert_eq!(resumed.load(Ordering::Relaxed), 4 + u64::from(ENDS) - 2);
    }
}
