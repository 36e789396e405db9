//! `pods/log`: the lines of [`container_log`]. Checks and options follow `pkg/registry/core/pod/rest/log.go` and
//! `pkg/kubelet/kuberuntime/logs/logs.go` of Kubernetes 1.36.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::proxy;
use super::request_scope::RequestScope;
use crate::container_log::{self, ContainerRun};
use crate::json::Value;
use crate::metadata;
use crate::object_watch::ObjectWatch;
use crate::registry::{ErrorList, NO_FIELD, Path, checks};
use crate::request::{Query, Reply, ReplyBody};
use crate::schema::go_time;
use crate::server::ApiServer;
use crate::status::Status;
use crate::store::ResourceId;

/// Serves the log of a container.
pub(crate) fn get(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let errors = log_errors(scope.query)?;
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", &scope.path.name, &errors));
    }
    let pod = scope.value(&*scope.stored()?);
    proxy::check_container(scope, &pod)?;
    if node_of(&pod).is_empty() {
        let mut reply = Reply::text(204, "");
        reply.headers.remove(CONTENT_TYPE);
        return Ok(reply);
    }
    check_node(scope, &pod)?;
    let (wanted, run) = LogRequest::of(scope, &pod)?;
    let mut reply = Reply::text(200, "");
    if let Some(run) = run {
        if scope.query.flag("follow") == Some(true) {
            reply.body = ReplyBody::Stream(Box::pin(wanted.follow(scope.server.clone(), run)));
        } else {
            reply.body = ReplyBody::Full(wanted.text(&pod, run, scope.server.clock().now()));
        }
    }
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(reply)
}

/// A request for the log of a container.
#[derive(Debug, Clone)]
struct LogRequest {
    namespace: String,
    pod: String,
    uid: String,
    container: String,
    /// The last run of the container instead of the present one.
    previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    limit: Option<usize>,
    since: Option<Timestamp>,
}

/// The part of a log that a follower has got.
struct LogProgress {
    /// Number of lines.
    lines: usize,
    /// Number of bytes that it still gets.
    left: usize,
}

impl LogRequest {
    /// Returns the request, and the run of the container whose lines it gets. Without kubelets there is none.
    fn of(scope: &RequestScope<'_>, pod: &Value) -> Result<(Self, Option<ContainerRun>), Status> {
        let query = scope.query;
        let container = proxy::container_of(scope, pod);
        let number = |name: &str| query.number(name).map(|found| found.and_then(|n| usize::try_from(n).ok()));
        let since = match query.number("sinceSeconds")? {
            Some(seconds) => scope.server.clock().now().checked_sub(Duration::from_secs(seconds.unsigned_abs())).ok(),
            None => since_time(query)?,
        };
        let wanted = Self {
            namespace: scope.path.namespace.clone(),
            pod: scope.path.name.clone(),
            uid: metadata::uid(pod).to_owned(),
            container: container.to_owned(),
            previous: query.flag("previous") == Some(true),
            timestamps: query.flag("timestamps") == Some(true),
            tail: number("tailLines")?,
            limit: number("limitBytes")?,
            since,
        };
        if !wanted.previous && !container_log::is_reported(pod) {
            return Ok((wanted, None));
        }
        let run = container_log::run_of(pod, container, wanted.previous);
        let run = run.map_err(|error| Status::bad_request(error.to_string()))?;
        Ok((wanted, Some(run)))
    }

    fn text(&self, pod: &Value, run: ContainerRun, now: Timestamp) -> Bytes {
        self.more(pod, run, now, &mut self.nothing())
    }

    fn nothing(&self) -> LogProgress {
        LogProgress { lines: 0, left: self.limit.unwrap_or(usize::MAX) }
    }

    /// Returns the lines that the container has written until now and that are not in `progress`, and adds them to it.
    fn more(&self, pod: &Value, run: ContainerRun, now: Timestamp, progress: &mut LogProgress) -> Bytes {
        let mut written = container_log::timed_lines(pod, &self.container, run);
        written.retain(|(at, _)| *at <= now);
        let skip = progress.lines;
        progress.lines = written.len();
        let mut shown: Vec<&(Timestamp, &str)> =
            written.iter().skip(skip).filter(|(at, _)| self.since.is_none_or(|since| *at >= since)).collect();
        if let Some(tail) = self.tail.filter(|_| skip == 0) {
            shown.drain(..shown.len().saturating_sub(tail));
        }
        let show = |(at, line): &(Timestamp, &str)| {
            if self.timestamps { format!("{at:.9} {line}\n") } else { format!("{line}\n") }
        };
        let mut text = shown.into_iter().map(show).collect::<Vec<_>>().concat().into_bytes();
        text.truncate(progress.left);
        progress.left -= text.len();
        text.into()
    }

    /// Streams lines as they are written, until the container has ended or the pod is gone.
    fn follow(
        self,
        server: ApiServer,
        run: ContainerRun,
    ) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send {
        let pods = ResourceId::new("", "pods");
        let watch = ObjectWatch::new(&server, pods.clone());
        let start = (self.nothing(), watch, false);
        futures::stream::unfold(start, move |(mut progress, mut watch, is_over)| {
            let wanted = self.clone();
            let server = server.clone();
            let pods = pods.clone();
            async move {
                let mut is_over = is_over;
                while !is_over && progress.left > 0 {
                    let stored = server.get(&pods, &wanted.namespace, &wanted.pod)?;
                    let pod = stored.value();
                    let present = container_log::run_of(&pod, &wanted.container, wanted.previous).ok()?;
                    if stored.uid() != wanted.uid || present.start != run.start {
                        return None;
                    }
                    let text = wanted.more(&pod, present, server.clock().now(), &mut progress);
                    is_over = present.end.is_some();
                    if !text.is_empty() {
                        return Some((Ok(text), (progress, watch, is_over)));
                    }
                    if !is_over {
                        let all = container_log::timed_lines(&pod, &wanted.container, present);
                        wait_for(&server, &mut watch, all.get(progress.lines).map(|(at, _)| *at)).await;
                    }
                }
                None
            }
        })
    }
}

/// Waits for the time of the next line or a change of pods.
async fn wait_for(server: &ApiServer, watch: &mut ObjectWatch, next: Option<Timestamp>) {
    tokio::select! {
        biased;
        () = watch.changed() => {}
        () = server.clock().wait_until(next) => {}
    }
}

/// Checks that the pod's node exists: upstream needs its address.
fn check_node(scope: &RequestScope<'_>, pod: &Value) -> Result<(), Status> {
    let node = node_of(pod);
    match scope.server.get(&ResourceId::new("", "nodes"), "", node) {
        Some(_) => Ok(()),
        None => Err(Status::not_found(scope.group_resource(), node)),
    }
}

fn node_of(pod: &Value) -> &str {
    pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the time from which on lines are wanted: `UnmarshalQueryParameter` of `metav1.Time`.
fn since_time(query: &Query) -> Result<Option<Timestamp>, Status> {
    let given = query.get("sinceTime").filter(|time| !matches!(*time, "" | "null"));
    given.map(|time| go_time(time).map_err(Status::bad_request)).transpose()
}

/// Validates the options of a log request.
fn log_errors(query: &Query) -> Result<ErrorList, Status> {
    let mut errors = ErrorList::new();
    if let Some(lines) = query.number("tailLines")?.filter(|lines| *lines < 0) {
        errors.invalid(&Path::new("tailLines"), lines, checks::NON_NEGATIVE_MESSAGE);
    }
    if let Some(bytes) = query.number("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.invalid(&Path::new("limitBytes"), bytes, checks::POSITIVE_MESSAGE);
    }
    let seconds = query.number("sinceSeconds")?;
    since_time(query)?;
    // Parameters without a value are given, too.
    if seconds.is_some() && query.get("sinceTime").is_some() {
        errors.forbidden(&Path::new(NO_FIELD), "at most one of `sinceTime` or `sinceSeconds` may be specified");
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.invalid(&Path::new("sinceSeconds"), seconds, checks::POSITIVE_MESSAGE);
    }
    if query.get("stream").is_some() {
        errors.forbidden(&Path::new("stream"), "may not be specified");
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use rstest::rstest;

    use super::*;
    use crate::clock::Clock;

    const POD: &str = r#"{"metadata": {"name": "p", "namespace": "default", "annotations": {
        "plumbline.dev/logs": "starting\n+5s ready\nsteady\n+1m done\n", "plumbline.dev/logs.side": "other"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}, {"name": "side", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            {"name": "side", "state": {"terminated": {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
                "containerID": "x://1"}}}]}}"#;

    fn request(change: impl FnOnce(&mut LogRequest)) -> LogRequest {
        let mut wanted = LogRequest {
            namespace: "default".to_owned(),
            pod: "p".to_owned(),
            uid: String::new(),
            container: "c".to_owned(),
            previous: false,
            timestamps: false,
            tail: None,
            limit: None,
            since: None,
        };
        change(&mut wanted);
        wanted
    }

    fn text_at(second: i64, wanted: &LogRequest) -> String {
        let pod: Value = serde_json::from_str(POD).expect("JSON");
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let now = Timestamp::from_second(start.as_second() + second).expect("a time");
        let run = container_log::run_of(&pod, &wanted.container, wanted.previous).expect("a run");
        String::from_utf8_lossy(&wanted.text(&pod, run, now)).into_owned()
    }

    /// Lines come at their time after the start; options of `kubectl logs`.
    #[rstest]
    #[case::at_the_start(0, request(|_| {}), "starting\n")]
    #[case::before(4, request(|_| {}), "starting\n")]
    #[case::at_its_time(5, request(|_| {}), "starting\nready\nsteady\n")]
    #[case::tail(60, request(|wanted| wanted.tail = Some(2)), "steady\ndone\n")]
    #[case::no_tail(60, request(|wanted| wanted.tail = Some(0)), "")]
    #[case::limit(60, request(|wanted| wanted.limit = Some(5)), "start")]
    #[case::since(60, request(|wanted| wanted.since = "2026-01-01T00:00:06Z".parse().ok()), "done\n")]
    #[case::timestamps(60, request(|wanted| { wanted.timestamps = true; wanted.tail = Some(1); }),
        "2026-01-01T00:01:00.000000000Z done\n")]
    #[case::container(60, request(|wanted| wanted.container = "side".to_owned()), "other\n")]
    fn lines_of_a_script(#[case] second: i64, #[case] wanted: LogRequest, #[case] expected: &str) {
        assert_eq!(text_at(second, &wanted), expected);
    }

    fn epoch() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    /// Follows the log of a container; returns the parts, each with its second.
    fn followed(limit: Option<usize>) -> (ApiServer, futures::stream::BoxStream<'static, (i64, String)>) {
        let start = epoch();
        let server = ApiServer::builder().clock(Clock::virtual_from(start)).build();
        let mut pod: Value = serde_json::from_str(POD).expect("JSON");
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        server.seed([pod]).expect("seeded");
        let stored = server.get(&ResourceId::new("", "pods"), "default", "p").expect("a pod");
        let wanted = request(|wanted| {
            wanted.uid = stored.uid().to_owned();
            wanted.limit = limit;
        });
        let run = container_log::run_of(&stored.value(), "c", false).expect("a run");
        let stream = wanted.follow(server.clone(), run);
        let clock = server.clock().clone();
        let seen = stream.map(move |part| {
            let text = String::from_utf8(part.expect("bytes").to_vec()).expect("text");
            (clock.now().duration_since(start).as_secs(), text)
        });
        (server, seen.boxed())
    }

    /// A follower gets the lines as they come.
    #[tokio::test(start_paused = true)]
    async fn a_log_is_followed() {
        let (_server, stream) = followed(None);
        let seen: Vec<(i64, String)> = stream.take(3).collect().await;
        let line = |at: i64, text: &str| (at, text.to_owned());
        assert_eq!(seen, [line(0, "starting\n"), line(5, "ready\nsteady\n"), line(60, "done\n")]);
    }

    /// The limit counts the bytes of the whole stream, which then ends.
    #[tokio::test(start_paused = true)]
    async fn a_followed_log_ends_at_its_limit() {
        let (_server, stream) = followed(Some(12));
        let seen: Vec<(i64, String)> = stream.collect().await;
        assert_eq!(seen, [(0, "starting\n".to_owned()), (5, "rea".to_owned())]);
    }

    /// A follower that waits for nothing gets the end with the pod.
    #[tokio::test(start_paused = true)]
    async fn a_followed_log_ends_with_the_pod() {
        let (server, stream) = followed(None);
        let clock = server.clock().clone();
        let remover = async {
            clock.sleep(Duration::from_secs(100)).await;
            let path = "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0";
            server.handle(crate::request::ApiRequest::new(http::Method::DELETE, path)).await.status
        };
        let (seen, removed) = futures::join!(stream.collect::<Vec<_>>(), remover);
        assert_eq!((seen.len(), removed, server.clock().now().duration_since(epoch()).as_secs()), (3, 200, 100));
    }

    /// `autoConvert_url_Values_To_v1_PodLogOptions`: the errors of Go's `strconv` and `time`.
    #[rstest]
    #[case("tailLines=x", "strconv.ParseInt: parsing \"x\": invalid syntax")]
    #[case("limitBytes=", "strconv.ParseInt: parsing \"\": invalid syntax")]
    #[case("sinceTime=now", "parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\" as \"2006\"")]
    #[case(
        "sinceTime=2024-01-01",
        "parsing time \"2024-01-01\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""
    )]
    fn malformed_options(#[case] query: &str, #[case] expected: &str) {
        let error = log_errors(&Query::parse(query)).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, expected));
    }

    #[rstest]
    #[case("tailLines=5&limitBytes=1&sinceSeconds=1", &[])]
    #[case("tailLines=-1&limitBytes=0", &["tailLines", "limitBytes"])]
    #[case("sinceSeconds=0", &["sinceSeconds"])]
    #[case("sinceSeconds=0&sinceTime=2024-01-01T00:00:00Z", &["[]"])]
    #[case("sinceSeconds=1&sinceTime=", &["[]"])]
    #[case("sinceTime=2024-01-01T00:00:00.5%2B01:00", &[])]
    #[case("sinceTime=null", &[])]
    #[case("stream=Stdout", &["stream"])]
    #[case("stream=", &["stream"])]
    fn options(#[case] query: &str, #[case] fields: &[&str]) {
        let errors = log_errors(&Query::parse(query)).unwrap();
        let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
