//! Watches the fixture's slice of the server and feeds the change tracker.

use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use plumbline::expect::world::Key;
use plumbline::fixture::{Action, CheckKind, Fixture, Resource, Target, parse};
use plumbline::metadata;
use plumbline::time::Clock;
use serde_json::Value;

use super::error::ServerError;
use super::proxy::Proxy;
use super::seed::path_of;
use super::tracker::{ObservedChange, version};

/// Resources followed for every fixture.
const ALWAYS: [(&str, &str); 4] =
    [("v1", "Pod"), ("v1", "Node"), ("v1", "Event"), ("policy/v1", "PodDisruptionBudget")];
/// Number of attempts to reopen a failing watch, and the pause between attempts.
const TRIES: u32 = 5;
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// Returns the resources to follow for a fixture.
pub(super) fn resources(fixture: &Fixture, known: &plumbline::fixture::pattern::Resources) -> Vec<Resource> {
    let mut all: Vec<Resource> =
        ALWAYS.iter().filter_map(|(version, kind)| known.of_kind(version, kind).ok()).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let given = fixture.given.objects.iter();
    all.extend(given.filter_map(|object| known.of_kind(&text(&object["apiVersion"]), &text(&object["kind"])).ok()));
    all.extend(targets(fixture).map(|target| target.resource.clone()));
    // The proxy manages namespaces itself, unless the fixture looks at them.
    let looks = targets(fixture).any(|target| target.resource.plural == "namespaces");
    all.retain(|resource| resource.plural != "namespaces" || looks);
    // Events are served in two groups and followed once; reviews (`auth*`) cannot be watched.
    all.retain(|resource| resource.group != "events.k8s.io" && !resource.group.starts_with("auth"));
    let mut seen: Vec<(String, String)> = Vec::new();
    all.retain(|resource| {
        let id = (resource.group.to_string(), resource.plural.to_string());
        let new = !seen.contains(&id);
        seen.push(id);
        new
    });
    all
}

/// Returns every object that steps and checks name.
pub(super) fn targets(fixture: &Fixture) -> impl Iterator<Item = &Target> {
    let actions = fixture.steps.iter().flat_map(parse::step_actions);
    let requested = actions.filter_map(|action| match action {
        Action::Request(request) => Some(&request.target),
        _ => None,
    });
    let checks = fixture.steps.iter().flat_map(parse::step_checks).chain(&fixture.expect);
    let checked = checks.filter_map(|check| match &check.kind {
        CheckKind::Exists(target)
        | CheckKind::Absent(target)
        | CheckKind::Budget { target, .. }
        | CheckKind::Match { target, .. }
        | CheckKind::Condition { target, .. }
        | CheckKind::Objects { target, .. } => Some(target),
        CheckKind::Event(_)
        | CheckKind::Requests { .. }
        | CheckKind::Never(_)
        | CheckKind::Quiet
        | CheckKind::Metric { .. } => None,
    });
    requested.chain(checked)
}

/// A list-and-watch loop over one resource.
#[derive(Clone)]
pub(super) struct ResourceFollower {
    pub(super) proxy: Proxy,
    pub(super) resource: Resource,
    /// For resources without a suffix: the fixture's own object names.
    pub(super) own: Vec<String>,
}

impl ResourceFollower {
    fn path(&self) -> String {
        let path = path_of(&self.resource, None, "", "");
        self.proxy.names().path(&path, self.resource.namespaced, self.proxy.only())
    }

    /// Lists the resource into the change tracker and returns the list's resourceVersion.
    pub(super) async fn list(&self) -> Result<u64, ServerError> {
        let Some((at, listed)) = self.read().await? else {
            return Err(ServerError::NotServed(self.resource.plural.to_string()));
        };
        self.proxy.tracker().reset(&self.resource.group, &self.resource.plural, listed, at);
        Ok(at)
    }

    /// Lists the objects that hold up the removal of a fixture: nodes, pods without a kubelet, and those with
    /// finalizers.
    pub(super) async fn leftovers(&self) -> Result<Vec<(Key, Value)>, ServerError> {
        if matches!(&*self.resource.kind, "Event" | "Namespace") {
            return Ok(Vec::new());
        }
        let mut listed = self.read().await?.unwrap_or_default().1;
        let stays = matches!(&*self.resource.kind, "Node" | "Pod");
        listed.retain(|(_, object)| stays || !metadata::finalizers(object).is_empty());
        Ok(listed)
    }

    /// Returns the list's resourceVersion and the fixture's objects in it; `None` if the server does not serve the
    /// resource, such as one whose definition was deleted.
    async fn read(&self) -> Result<Option<(u64, Vec<(Key, Value)>)>, ServerError> {
        let answered = self.proxy.ask(Method::GET, &self.path(), None).await?;
        if answered.code == 404 {
            return Ok(None);
        }
        let mut value = answered.value();
        if !answered.is_success() {
            return Err(ServerError::NotListed {
                resource: self.resource.plural.to_string(),
                code: answered.code,
                message: value["message"].to_string(),
            });
        }
        let at = version(&value);
        let items = value["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let objects = items.into_iter().filter_map(|object| self.own(object));
        Ok(Some((at, objects.map(|object| (self.key(&object), object)).collect())))
    }

    /// Returns the object with the fixture's names if it belongs to the fixture.
    fn own(&self, mut object: Value) -> Option<Value> {
        if !self.proxy.names().owns(&object, &self.resource.group, &self.resource.plural) {
            return None;
        }
        self.proxy.names().to_fixture(&mut object);
        let name = metadata::name(&object);
        let renamed = self.resource.namespaced || matches!(&*self.resource.plural, "nodes" | "namespaces");
        if !renamed && !self.own.iter().any(|own| own == name) {
            return None;
        }
        // Items of a list have no `apiVersion` and `kind`.
        object["apiVersion"] = self.resource.api_version().into();
        object["kind"] = self.resource.kind.to_string().into();
        Some(object)
    }

    fn key(&self, object: &Value) -> Key {
        Key {
            group: self.resource.group.to_string(),
            resource: self.resource.plural.to_string(),
            namespace: metadata::namespace(object).map(str::to_owned),
            name: metadata::name(object).to_owned(),
        }
    }

    /// Watches the resource from a resourceVersion on, until the task is dropped or the server is unreachable.
    pub(super) async fn follow(self, mut from: u64) {
        let mut failures = 0;
        while failures < TRIES {
            match self.watch(&mut from).await {
                Ok(()) => failures = 0,
                Err(WatchError::TooOld) => match self.list().await {
                    Ok(at) => from = at,
                    Err(_) => failures += 1,
                },
                Err(WatchError::Failed(why)) => {
                    failures += 1;
                    if failures == TRIES {
                        let what = &self.resource.plural;
                        return self
                            .proxy
                            .mark_failed(format!("the API server does not respond: unable to watch {what}: {why}"));
                    }
                    Clock::wall().sleep(WATCH_PAUSE).await;
                }
            }
        }
    }

    /// Runs one watch. Returns `Ok` when the server closes it after it delivered at least one event.
    async fn watch(&self, from: &mut u64) -> Result<(), WatchError> {
        let path = format!("{}?watch=true&allowWatchBookmarks=true&resourceVersion={from}", self.path());
        let mut lines = match self.proxy.lines(&path).await? {
            Ok(lines) => lines,
            Err(answered) if answered.code == 410 => return Err(WatchError::TooOld),
            Err(answered) => {
                return Err(WatchError::Failed(format!("{} {}", answered.code, answered.value()["message"])));
            }
        };
        let mut any = false;
        while let Some(line) = lines.next().await {
            let line = line?;
            let mut event: Value =
                serde_json::from_slice(&line).map_err(|error| WatchError::Failed(error.to_string()))?;
            any = true;
            let object = event["object"].take();
            let kind = event["type"].as_str().unwrap_or_default();
            if kind == "ERROR" {
                let expired = object["code"] == 410;
                return Err(if expired {
                    WatchError::TooOld
                } else {
                    WatchError::Failed(object["message"].to_string())
                });
            }
            *from = (*from).max(version(&object));
            if kind == "BOOKMARK" {
                continue;
            }
            if let Some(object) = self.own(object) {
                let key = self.key(&object);
                let version = version(&object);
                let object = (kind != "DELETED").then(|| object.into());
                self.proxy.tracker().observe(ObservedChange { key, version, object });
            }
        }
        if any { Ok(()) } else { Err(WatchError::Failed("the server closes it immediately".to_owned())) }
    }
}

/// Reasons for the end of a watch.
enum WatchError {
    /// The resourceVersion is too old (410).
    TooOld,
    Failed(String),
}

impl From<ServerError> for WatchError {
    fn from(error: ServerError) -> Self {
        Self::Failed(error.to_string())
    }
}
