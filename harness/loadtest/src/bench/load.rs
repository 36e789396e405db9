//! Writing many objects over many connections at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plumbline::time::Clock;
use tokio::task::JoinSet;

use super::bodies::{self, LoadPod, LoadSpec};
use super::error::BenchError;
use super::http::{Connection, Endpoint};

/// A load, split into numbered pieces.
pub(crate) trait Work: Send + Sync + 'static {
    /// Executes piece `number`: one or more requests.
    fn piece(&self, connection: &mut Connection, number: usize) -> impl Future<Output = Result<(), BenchError>> + Send;
}

/// Durations of pieces of work.
#[derive(Debug, Default)]
pub(crate) struct Timings {
    /// Time from the start of the first piece to the end of the last.
    pub(crate) all: Duration,
    /// Duration of each piece, sorted ascending.
    pub(crate) each: Vec<Duration>,
}

impl Timings {
    /// Pieces per second.
    pub(crate) fn rate(&self) -> f64 {
        self.each.len() as f64 / self.all.as_secs_f64()
    }

    /// Returns the duration that this percentage of the pieces did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.each.len() * percent).div_ceil(100);
        self.each.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Executes pieces 0 to `count` of `work` over `connections` connections; each takes the next piece when it has
/// finished one.
pub(crate) async fn run<W: Work>(
    clock: &Clock,
    endpoint: &Endpoint,
    connections: usize,
    count: usize,
    work: Arc<W>,
) -> Result<Timings, BenchError> {
    let mut open = Vec::new();
    for _ in 0..connections.min(count) {
        open.push(endpoint.connect().await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let start = clock.elapsed();
    let mut tasks = JoinSet::new();
    for mut connection in open {
        let work = work.clone();
        let next = next.clone();
        let clock = clock.clone();
        tasks.spawn(async move {
            let mut each = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(each);
                }
                let begun = clock.elapsed();
                work.piece(&mut connection, number).await?;
                each.push(clock.elapsed().saturating_sub(begun));
            }
        });
    }
    let mut took = Timings::default();
    while let Some(ended) = tasks.join_next().await {
        took.each.append(&mut ended.map_err(|error| BenchError::Task(error.to_string()))??);
    }
    took.all = clock.elapsed().saturating_sub(start);
    took.each.sort_unstable();
    Ok(took)
}

/// Deletes the objects at these paths, if they exist.
pub(crate) struct DeleteObjects(pub(crate) Vec<String>);

impl Work for DeleteObjects {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let Some(path) = self.0.get(number) else { return Ok(()) };
        match connection.ask("DELETE", path, &[]).await? {
            (200 | 202 | 404, _) => Ok(()),
            (status, body) => Err(super::http::refused("DELETE", path, status, body)),
        }
    }
}

/// Creates namespaces with these names.
pub(crate) struct CreateNamespaces(pub(crate) Vec<String>);

impl Work for CreateNamespaces {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let Some(name) = self.0.get(number) else { return Ok(()) };
        let body = bodies::namespace_body(name);
        connection.exchange("POST", "/api/v1/namespaces", &[body.as_bytes()], 201).await.map(|_| ())
    }
}

/// Creates the nodes of a world.
pub(crate) struct CreateNodes(pub(crate) LoadSpec);

impl Work for CreateNodes {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let body = bodies::node(number, self.0.annotated);
        connection.exchange("POST", "/api/v1/nodes", &[body.as_bytes()], 201).await.map(|_| ())
    }
}

/// Creates the replica sets of applications and stores their uids.
pub(crate) struct CreateReplicaSets {
    /// The applications and namespaces.
    pub(crate) world: LoadSpec,
    /// uid by application.
    pub(crate) uids: parking_lot::Mutex<Vec<Arc<str>>>,
}

impl Work for CreateReplicaSets {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let body = bodies::replica_set(&self.world, number);
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets", self.world.namespace(number));
        let reply = connection.exchange("POST", &path, &[body.as_bytes()], 201).await?;
        let uid = text_member(reply, "uid").ok_or_else(|| BenchError::Reply(format!("no uid after POST {path}")))?;
        let mut uids = self.uids.lock();
        if let Some(place) = uids.get_mut(number) {
            *place = uid.into();
        }
        Ok(())
    }
}

/// Creates the budgets of a world, one per application.
pub(crate) struct CreateBudgets(pub(crate) LoadSpec);

impl Work for CreateBudgets {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let body = bodies::budget(&self.0, number);
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", self.0.namespace(number));
        connection.exchange("POST", &path, &[body.as_bytes()], 201).await.map(|_| ())
    }
}

/// Creates pods and then updates the status of the returned object, like a kubelet.
pub(crate) struct CreatePods {
    /// The applications, namespaces and nodes.
    pub(crate) world: LoadSpec,
    /// uid of each application's replica set.
    pub(crate) owners: Vec<Arc<str>>,
}

impl Work for CreatePods {
    async fn piece(&self, connection: &mut Connection, number: usize) -> Result<(), BenchError> {
        let created = self.create(connection, number).await?;
        self.report_ready(connection, number, &created).await
    }
}

impl CreatePods {
    /// Creates a pod like its replica set's controller and the scheduler; returns the server's response up to the
    /// status.
    pub(crate) async fn create(&self, connection: &mut Connection, number: usize) -> Result<Vec<u8>, BenchError> {
        let (app, node) = self.world.place(number);
        let namespace = self.world.namespace(app);
        let app_name = bodies::app(app);
        let name = bodies::pod_name(&app_name, number);
        let owner = self.owners.get(app).map(|uid| &**uid);
        let body = bodies::pod(&LoadPod { namespace: &namespace, name: &name, app: &app_name, owner, node });
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let created = connection.exchange("POST", &path, &[body.as_bytes()], 201).await?;
        // The status is the last member of the response.
        let end =
            last(created, br#""status":{"#).ok_or_else(|| BenchError::Reply(format!("no status after POST {path}")))?;
        Ok(created[..end].to_vec())
    }

    /// Reports the pod as ready, like its kubelet; `created` is the result of [`CreatePods::create`] and is sent back
    /// unchanged.
    pub(crate) async fn report_ready(
        &self,
        connection: &mut Connection,
        number: usize,
        created: &[u8],
    ) -> Result<(), BenchError> {
        let (app, node) = self.world.place(number);
        let path = format!("{}/status", self.path(app, number));
        let status = bodies::status(number, node);
        connection.exchange("PUT", &path, &[created, status.as_bytes()], 200).await.map(|_| ())
    }

    /// Path of a pod.
    pub(crate) fn path(&self, app: usize, number: usize) -> String {
        let name = bodies::pod_name(&bodies::app(app), number);
        format!("/api/v1/namespaces/{}/pods/{name}", self.world.namespace(app))
    }
}

fn last(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::rfind(text, wanted)
}

/// Returns the text of the first member `name` in encoded JSON, at any depth.
pub(crate) fn text_member<'a>(json: &'a [u8], name: &str) -> Option<&'a str> {
    let begin = format!("\"{name}\":\"");
    let from = super::http::find(json, begin.as_bytes())? + begin.len();
    let length = json[from..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&json[from..from + length]).ok()
}

/// Returns the integer that is the first member `name` in encoded JSON, at any depth.
pub(crate) fn number_member(json: &[u8], name: &str) -> Option<i64> {
    let begin = format!("\"{name}\":");
    let from = super::http::find(json, begin.as_bytes())? + begin.len();
    let length = json[from..].iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&json[from..from + length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found() {
        let json = br#"{"metadata":{"uid":"u-1","continue":"abc"},"status":{"x":1},"status":{"phase":"Pending"}}"#;
        assert_eq!(text_member(json, "continue"), Some("abc"));
        assert_eq!(text_member(json, "resourceVersion"), None);
        assert_eq!(
            (number_member(json, "x"), number_member(json, "uid"), number_member(json, "y")),
            (Some(1), None, None)
        );
        assert!(json[last(json, br#""status":{"#).unwrap()..].starts_with(br#""status":{"phase""#));
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let each = (1..=100).map(Duration::from_millis).collect();
        let took = Timings { all: Duration::from_secs(2), each };
        assert_eq!(took.percentile(50), Duration::from_millis(50));
        assert_eq!(took.percentile(100), Duration::from_millis(100));
        assert!((took.rate() - 50.0).abs() < 1e-9);
        assert_eq!(Timings::default().percentile(99), Duration::ZERO);
    }
}
