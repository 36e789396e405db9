//! Routes requests: below `/plumbline/worlds/NAME` to the world of that name, everything else to the first world.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http::{Method, header, uri::Authority};
use parking_lot::RwLock;
use plumbline::time::Clock;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::request::{ApiRequest, Reply};
use plumbline_apiserver::status::Status;
use serde_json::{Value, json};

use super::control::{self, ControlError};
use super::error::WorldError;
use super::spec::{ClockMode, WorldSpec};
use super::world::ServedWorld;

/// The path of the worlds.
const WORLDS: &str = "/plumbline/worlds";

/// The beginning of the paths of control requests.
const CONTROL: &str = "/plumbline";

/// Worlds that one listener serves at a time. Each has threads and objects of its own.
const WORLDS_MAX: usize = 1_000;

/// Handles the requests of a listener. Clones are handles of the same worlds.
#[derive(Clone, Debug)]
pub struct ServeHandler {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The clock of connections.
    clock: Clock,
    token: RwLock<String>,
    origin: OnceLock<Origin>,
    worlds: RwLock<BTreeMap<String, Arc<ServedWorld>>>,
}

/// The parts from which worlds and their kubeconfigs are made.
#[derive(Debug)]
struct Origin {
    spec: Arc<WorldSpec>,
    first: Arc<ServedWorld>,
    kubeconfig: String,
    url: String,
}

impl Default for ServeHandler {
    fn default() -> Self {
        let shared = Shared {
            clock: Clock::wall(),
            token: RwLock::default(),
            origin: OnceLock::new(),
            worlds: RwLock::default(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl ServeHandler {
    /// Starts the first world. `kubeconfig` and `url` are the listener's. Call it once, before the listener serves.
    ///
    /// # Errors
    ///
    /// Returns the part of the world that does not start, with the reason.
    pub async fn start(&self, spec: WorldSpec, kubeconfig: String, url: String) -> Result<(), WorldError> {
        let spec = Arc::new(spec);
        let first = Arc::new(self.world(&spec).await?);
        let origin = Origin { spec, first, kubeconfig, url };
        self.shared.origin.set(origin).map_err(|_| WorldError::RunsAlready)
    }

    /// Returns the transcript of the first world as people read it; empty before [`Self::start`].
    #[must_use]
    pub fn transcript(&self) -> String {
        self.shared.origin.get().map(|origin| control::transcript_text(&origin.first)).unwrap_or_default()
    }

    async fn world(&self, spec: &Arc<WorldSpec>) -> Result<ServedWorld, WorldError> {
        let world = ServedWorld::start(spec.clone(), self.shared.clock.now()).await?;
        // All worlds accept the listener's token; those of service accounts are signed with a key made from it.
        let token = self.shared.token.read().clone();
        world.server().rekey(&token);
        Ok(world)
    }

    fn named(&self, name: &str) -> Option<Arc<ServedWorld>> {
        self.shared.worlds.read().get(name).cloned()
    }

    /// Handles a request about the worlds themselves.
    async fn worlds(&self, origin: &Origin, request: &ApiRequest, name: &str) -> Result<Reply, ControlError> {
        if let Some(refusal) = origin.first.server().refuse_control(request) {
            return Ok(refusal);
        }
        match (&request.method, name) {
            (&Method::GET, "") => {
                let worlds = self.shared.worlds.read();
                let items: Vec<Value> = worlds.keys().map(|name| origin.describe(name, request)).collect();
                Ok(Reply::json(200, json!({"items": items}).to_string()))
            }
            (&Method::POST, "") => self.create(origin, request).await,
            (&Method::GET, name) => match self.named(name) {
                Some(_) => Ok(Reply::json(200, origin.describe(name, request).to_string())),
                None => Err(gone(name)),
            },
            (&Method::DELETE, name) => {
                let removed = self.shared.worlds.write().remove(name);
                removed.map(|_| Reply::json(200, json!({"name": name}).to_string())).ok_or_else(|| gone(name))
            }
            _ => Err(ControlError::method(&request.method, "GET, POST, DELETE")),
        }
    }

    async fn create(&self, origin: &Origin, request: &ApiRequest) -> Result<Reply, ControlError> {
        #[derive(serde::Deserialize, Default)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct NewWorld {
            name: Option<String>,
            clock: Option<WorldClock>,
        }
        #[derive(serde::Deserialize, Clone, Copy)]
        #[serde(rename_all = "lowercase")]
        enum WorldClock {
            Wall,
            Manual,
        }
        let wanted: NewWorld =
            if request.body.is_empty() { NewWorld::default() } else { control::body(&request.body)? };
        if let Some(name) = &wanted.name {
            check_name(name)?;
        }
        let clock = match wanted.clock {
            Some(WorldClock::Wall) => ClockMode::Wall,
            Some(WorldClock::Manual) => ClockMode::Manual,
            None => origin.spec.clock,
        };
        let spec = Arc::new(WorldSpec { clock, ..WorldSpec::clone(&origin.spec) });
        // Checked before a world is started, and again after it: others may have been created since.
        check_room(&self.shared.worlds.read(), wanted.name.as_deref())?;
        let world = Arc::new(self.world(&spec).await.map_err(|error| ControlError::internal(error.to_string()))?);
        let mut worlds = self.shared.worlds.write();
        check_room(&worlds, wanted.name.as_deref())?;
        let name = wanted.name.unwrap_or_else(|| free_name(&worlds));
        worlds.insert(name.clone(), world);
        Ok(Reply::json(201, origin.describe(&name, request).to_string()))
    }
}

impl Origin {
    /// Describes a world to the client that asks, under the address at which the client reaches this server: that of a
    /// container is another one than the listener's.
    fn describe(&self, name: &str, request: &ApiRequest) -> Value {
        let host = request.header(header::HOST).parse::<Authority>().ok();
        let host = host.filter(|host| !host.as_str().contains('@'));
        let base = match (host, self.url.split_once("://")) {
            (Some(host), Some((scheme, _))) => format!("{scheme}://{host}"),
            _ => self.url.clone(),
        };
        let url = format!("{base}{WORLDS}/{name}");
        // The kubeconfig has the URL once.
        let kubeconfig = self.kubeconfig.replacen(&self.url, &url, 1);
        json!({"name": name, "url": url, "kubeconfig": kubeconfig})
    }
}

fn gone(name: &str) -> ControlError {
    ControlError::not_found(format!("there is no world {name:?}; POST {WORLDS} creates one"))
}

/// Names are labels of DNS, so that they need no escapes in URLs.
fn check_name(name: &str) -> Result<(), ControlError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=63).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(ControlError::bad(format!("name {name:?}: 1 to 63 of the characters a-z, 0-9 and -")))
}

/// Refuses a world above the largest number, or with a name that is taken.
fn check_room(worlds: &BTreeMap<String, Arc<ServedWorld>>, name: Option<&str>) -> Result<(), ControlError> {
    if worlds.len() >= WORLDS_MAX {
        return Err(ControlError::conflict(format!("there are {WORLDS_MAX} worlds; delete one of them first")));
    }
    match name.filter(|name| worlds.contains_key(*name)) {
        Some(name) => Err(ControlError::conflict(format!("the world {name} exists; delete it first"))),
        None => Ok(()),
    }
}

/// Returns the first free name of the form `world-1`.
fn free_name(worlds: &BTreeMap<String, Arc<ServedWorld>>) -> String {
    (1..=WORLDS_MAX + 1)
        .map(|number| format!("world-{number}"))
        .find(|name| !worlds.contains_key(name))
        .unwrap_or_default()
}

impl RequestHandler for ServeHandler {
    async fn handle(&self, mut request: ApiRequest) -> Reply {
        let Some(origin) = self.shared.origin.get() else {
            return Status::failure(503, "ServiceUnavailable", "the first world has not started yet").into();
        };
        // The control of worlds is not a part of the API, so roles do not cover it.
        if request.anonymous && request.path.starts_with(CONTROL) {
            return Status::unauthorized().into();
        }
        let Some(rest) = request.path.strip_prefix(WORLDS) else {
            return control::handle(&origin.first, request).await;
        };
        let rest = rest.trim_start_matches('/');
        match rest.split_once('/') {
            Some((name, path)) if !path.is_empty() => {
                let Some(world) = self.named(name) else { return gone(name).into() };
                request.path = format!("/{path}");
                control::handle(&world, request).await
            }
            Some((name, _)) => self.worlds(origin, &request, name).await.unwrap_or_else(Into::into),
            None => self.worlds(origin, &request, rest).await.unwrap_or_else(Into::into),
        }
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn rekey(&self, token: &str) {
        token.clone_into(&mut self.shared.token.write());
    }

    fn issued_token(&self, token: &str) -> bool {
        let first = self.shared.origin.get().is_some_and(|origin| origin.first.issued_token(token));
        let worlds = self.shared.worlds.read();
        first || worlds.values().any(|world| world.issued_token(token))
    }
}
