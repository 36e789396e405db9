//! `pods/log`: the lines that annotations of the pod hold, because nothing runs. Checks and options follow
//! `pkg/registry/core/pod/rest/log.go` and `pkg/kubelet/kuberuntime/logs/logs.go` of Kubernetes 1.36.
//!
//! `plumbline.dev/logs` has the lines of every container, `plumbline.dev/logs.NAME` those of one. A container writes a
//! line when it starts; one that begins with `+` and a duration, such as `+5s ready`, comes that long after the start.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::proxy;
use super::request_scope::RequestScope;
use crate::go_duration::go_duration;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;
use crate::registry::{ErrorList, NO_FIELD, Path, checks};
use crate::request::{Query, Reply, ReplyBody};
use crate::server::ApiServer;
use crate::status::Status;
use crate::store::ResourceId;

/// The annotation with the lines that containers write.
const LOGS: &str = "plumbline.dev/logs";
/// Time between two looks at a pod whose log is followed.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);

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
    let wanted = LogRequest::of(scope, &pod)?;
    let mut reply = Reply::text(200, "");
    if scope.query.flag("follow") == Some(true) {
        reply.body = ReplyBody::Stream(Box::pin(wanted.follow(scope.server.clone())));
    } else {
        let text = wanted.text(&pod, scope.server.clock().now(), 0).0;
        reply.body = ReplyBody::Full(wanted.limited(text).into());
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

impl LogRequest {
    fn of(scope: &RequestScope<'_>, pod: &Value) -> Result<Self, Status> {
        let query = scope.query;
        let first = || array_field(&pod["spec"], "containers").first().and_then(|first| first["name"].as_str());
        let container = query.get("container").filter(|name| !name.is_empty()).or_else(first).unwrap_or_default();
        let number = |name: &str| query.number(name).map(|found| found.and_then(|n| usize::try_from(n).ok()));
        let since = match query.number("sinceSeconds")? {
            Some(seconds) => scope.server.clock().now().checked_sub(Duration::from_secs(seconds.unsigned_abs())).ok(),
            None => query.get("sinceTime").and_then(|time| time.parse().ok()),
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
        // Without kubelets, pods have no status.
        let is_reported = !array_field(&pod["status"], "containerStatuses").is_empty();
        if wanted.run(pod).is_none() && (is_reported || wanted.previous) {
            return Err(Status::bad_request(wanted.why_none(pod)));
        }
        Ok(wanted)
    }

    fn status<'p>(&self, pod: &'p Value) -> Option<&'p Value> {
        let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let mut all = lists.iter().flat_map(|list| array_field(&pod["status"], list));
        all.find(|status| status["name"] == self.container.as_str())
    }

    /// Returns the start and the end of the container's run.
    fn run(&self, pod: &Value) -> Option<(Timestamp, Option<Timestamp>)> {
        let state = &self.status(pod)?[if self.previous { "lastState" } else { "state" }];
        let time = |part: &str, field: &str| state[part][field].as_str().and_then(|text| text.parse().ok());
        match time("running", "startedAt") {
            Some(start) => Some((start, None)),
            None => Some((time("terminated", "startedAt")?, time("terminated", "finishedAt"))),
        }
    }

    /// Returns why a container has no log: `validateContainerLogStatus` in `pkg/kubelet/kubelet_pods.go`.
    fn why_none(&self, pod: &Value) -> String {
        let Self { container, pod: name, .. } = self;
        if self.previous {
            return format!("previous terminated container {container:?} in pod {name:?} not found");
        }
        match self.status(pod).map(|status| str_field(&status["state"]["waiting"], "reason")) {
            None => format!("container {container:?} in pod {name:?} is not available"),
            Some("ErrImagePull" | "ImagePullBackOff") => {
                format!("container {container:?} in pod {name:?} is waiting to start: trying and failing to pull image")
            }
            Some("") => format!("container {container:?} in pod {name:?} is waiting to start - no logs yet"),
            Some(reason) => format!("container {container:?} in pod {name:?} is waiting to start: {reason}"),
        }
    }

    /// Returns the lines that the container has written until now, without the first ones, and their number with these.
    fn text(&self, pod: &Value, now: Timestamp, skip: usize) -> (String, usize) {
        let Some((start, end)) = self.run(pod) else { return (String::new(), skip) };
        let until = end.map_or(now, |end| end.min(now));
        let script = lines(pod, &self.container);
        let timed = script.iter().map(|(after, line)| (start.checked_add(*after).unwrap_or(Timestamp::MAX), *line));
        let written: Vec<(Timestamp, &str)> = timed.take_while(|(at, _)| *at <= until).collect();
        let mut shown: Vec<&(Timestamp, &str)> =
            written.iter().skip(skip).filter(|(at, _)| self.since.is_none_or(|since| *at >= since)).collect();
        if let Some(tail) = self.tail.filter(|_| skip == 0) {
            shown.drain(..shown.len().saturating_sub(tail));
        }
        let show = |(at, line): &(Timestamp, &str)| {
            if self.timestamps { format!("{at:.9} {line}\n") } else { format!("{line}\n") }
        };
        let text = shown.into_iter().map(show).collect::<Vec<_>>().concat();
        (text, written.len())
    }

    fn limited(&self, mut text: String) -> String {
        let limit = self.limit.unwrap_or(usize::MAX).min(text.len());
        text.truncate(text.floor_char_boundary(limit));
        text
    }

    /// Streams lines as they are written, until the container has ended or the pod is gone.
    fn follow(self, server: ApiServer) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send {
        futures::stream::unfold((self, server, 0, false), |(wanted, server, seen, over)| async move {
            if over {
                return None;
            }
            loop {
                let stored = server.get(&ResourceId::new("", "pods"), &wanted.namespace, &wanted.pod)?;
                if stored.uid() != wanted.uid {
                    return None;
                }
                let pod = stored.value();
                let now = server.clock().now();
                let (text, seen_now) = wanted.text(&pod, now, seen);
                let over = wanted.run(&pod).is_none_or(|(_, end)| end.is_some());
                if !text.is_empty() || over {
                    let text = wanted.limited(text);
                    return Some((Ok(text.into()), (wanted, server, seen_now, over)));
                }
                server.clock().sleep(FOLLOW_PERIOD).await;
            }
        })
    }
}

/// Returns the lines that a container writes, each with the time after the start.
fn lines<'p>(pod: &'p Value, container: &str) -> Vec<(Duration, &'p str)> {
    let own = metadata::annotation(pod, &format!("{LOGS}.{container}"));
    let text = own.or_else(|| metadata::annotation(pod, LOGS)).unwrap_or_default();
    let mut last = Duration::ZERO;
    let timed = text.lines().map(|line| {
        let delayed = line.strip_prefix('+').and_then(|rest| {
            let (after, line) = rest.split_once(' ').unwrap_or((rest, ""));
            Some((Duration::from_nanos(u64::try_from(go_duration(after)?).ok()?), line))
        });
        // A line comes after the one above it.
        let (after, line) = delayed.unwrap_or((last, line));
        last = last.max(after);
        (last, line)
    });
    timed.collect()
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
    if seconds.is_some() && query.get("sinceTime").is_some_and(|time| !time.is_empty()) {
        errors.forbidden(&Path::new(NO_FIELD), "at most one of `sinceTime` or `sinceSeconds` may be specified");
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.invalid(&Path::new("sinceSeconds"), seconds, checks::POSITIVE_MESSAGE);
    }
    if query.get("stream").is_some_and(|stream| !stream.is_empty()) {
        errors.forbidden(&Path::new("stream"), "may not be specified");
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const POD: &str = r#"{"metadata": {"name": "p", "namespace": "default", "annotations": {
        "plumbline.dev/logs": "starting\n+5s ready\nsteady\n+1m done\n", "plumbline.dev/logs.side": "other"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}, {"name": "side", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            {"name": "side", "state": {"terminated": {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}}}]}}"#;

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
        wanted.limited(wanted.text(&pod, now, 0).0)
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

    #[rstest]
    #[case::previous(request(|wanted| wanted.previous = true), "previous terminated container \"c\" in pod \"p\" not found")]
    #[case::unknown(request(|wanted| wanted.container = "x".to_owned()), "container \"x\" in pod \"p\" is not available")]
    fn containers_without_a_log(#[case] wanted: LogRequest, #[case] why: &str) {
        let pod: Value = serde_json::from_str(POD).expect("JSON");
        assert!(wanted.run(&pod).is_none());
        assert_eq!(wanted.why_none(&pod), why);
    }

    /// A plus sign need not be followed by a time, and the text may be cut inside a character.
    #[rstest]
    #[case("+x y", "+x y")]
    #[case("+", "+")]
    #[case("+-5s y", "+-5s y")]
    #[case("é", "é")]
    fn odd_lines(#[case] line: &str, #[case] expected: &str) {
        let mut pod: Value = serde_json::from_str(POD).expect("JSON");
        pod["metadata"]["annotations"]["plumbline.dev/logs"] = line.into();
        assert_eq!(lines(&pod, "c"), [(Duration::ZERO, expected)]);
        assert_eq!(request(|wanted| wanted.limit = Some(1)).limited("é".to_owned()), "");
    }

    /// A follower gets the lines as they come, and the end with the pod.
    #[tokio::test(start_paused = true)]
    async fn a_log_is_followed() {
        use futures::StreamExt as _;

        use crate::clock::Clock;
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let server = ApiServer::builder().clock(Clock::virtual_from(start)).build();
        let mut pod: Value = serde_json::from_str(POD).expect("JSON");
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        server.seed([pod]).expect("seeded");
        let stored = server.get(&ResourceId::new("", "pods"), "default", "p").expect("a pod");
        let wanted = request(|wanted| wanted.uid = stored.uid().to_owned());
        let mut stream = Box::pin(wanted.follow(server.clone()));
        let mut seen = Vec::new();
        for _ in 0..3 {
            let part = stream.next().await.expect("a part").expect("bytes");
            seen.push((server.clock().now().duration_since(start).as_secs(), part));
        }
        assert_eq!(seen, [(0, "starting\n".into()), (5, "ready\nsteady\n".into()), (60, "done\n".into())]);
    }

    #[rstest]
    #[case("tailLines=5&limitBytes=1&sinceSeconds=1", &[])]
    #[case("tailLines=-1&limitBytes=0", &["tailLines", "limitBytes"])]
    #[case("sinceSeconds=0", &["sinceSeconds"])]
    #[case("sinceSeconds=0&sinceTime=2024-01-01T00:00:00Z", &["[]"])]
    #[case("stream=Stdout", &["stream"])]
    fn options(#[case] query: &str, #[case] fields: &[&str]) {
        let errors = log_errors(&Query::parse(query)).unwrap();
        let found: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(found, fields);
    }
}
