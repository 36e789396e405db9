//! The control API of a world, below `/plumbline`: clock, faults, state and transcript. `openapi.json` describes it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use plumbline::transcript::render::{render, to_text};
use plumbline::transcript::{EntryKind, TranscriptEntry};
use plumbline_apiserver::request::{ApiRequest, Query, Reply};
use plumbline_apiserver::status::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fault_rules::ServedFault;
use super::spec::ClockMode;
use super::state::WorldState;
use super::world::ServedWorld;

/// The description of the control API.
const OPENAPI: &str = include_str!("openapi.json");
/// Largest number of fault rules of a world: each request looks at all of them.
const RULES_MAX: usize = 1000;
/// Largest number of saved states of a world.
const SAVED_MAX: usize = 64;

/// A request that cannot be fulfilled. It is sent as a `Status` of the Kubernetes API.
#[derive(Debug)]
pub(super) struct ControlError(Status);

impl ControlError {
    pub(super) fn bad(why: impl Into<String>) -> Self {
        Self(Status::failure(400, "BadRequest", why))
    }

    pub(super) fn not_found(why: impl Into<String>) -> Self {
        Self(Status::failure(404, "NotFound", why))
    }

    pub(super) fn conflict(why: impl Into<String>) -> Self {
        Self(Status::failure(409, "Conflict", why))
    }

    pub(super) fn internal(why: impl Into<String>) -> Self {
        Self(Status::failure(500, "InternalError", why))
    }

    pub(super) fn method(method: &Method, allowed: &str) -> Self {
        Self(Status::failure(405, "MethodNotAllowed", format!("{method} is not allowed here; allowed are {allowed}")))
    }
}

impl From<ControlError> for Reply {
    fn from(error: ControlError) -> Self {
        Reply::status(&error.0)
    }
}

/// Reads the body of a request: JSON, or YAML.
pub(super) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ControlError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ControlError::bad(format!("the body: {error}")))?;
    if text.trim_start().starts_with(['{', '[']) {
        return serde_json::from_str(text).map_err(|error| ControlError::bad(format!("the body: {error}")));
    }
    serde_saphyr::from_str(text).map_err(|error| ControlError::bad(format!("the body: {}", error.without_snippet())))
}

/// Handles a request to a world: its control API here, everything else in its API server.
pub(super) async fn handle(world: &Arc<ServedWorld>, request: ApiRequest) -> Reply {
    // A token that opens the world's API is not enough: only administrators may control the world.
    if request.path.starts_with("/plumbline/")
        && let Some(refusal) = world.server().refuse_control(&request)
    {
        return refusal;
    }
    let outcome = match request.path.as_str() {
        "/plumbline/clock" => clock(world, &request).await,
        "/plumbline/faults" => faults(world, &request),
        "/plumbline/state" => state(world, &request).await,
        "/plumbline/transcript" => match Query::parse(&request.query).get("format") {
            Some("text") => text(world, &request),
            Some(format) if format != "json" => {
                Err(ControlError::bad(format!("the format `{format}` is not known: use json or text")))
            }
            _ => return world.handle(request).await,
        },
        "/plumbline/openapi.json" => read_only(&request).map(|()| Reply::json(200, OPENAPI)),
        _ => return world.handle(request).await,
    };
    outcome.unwrap_or_else(Into::into)
}

fn read_only(request: &ApiRequest) -> Result<(), ControlError> {
    if request.method == Method::GET { Ok(()) } else { Err(ControlError::method(&request.method, "GET")) }
}

async fn clock(world: &ServedWorld, request: &ApiRequest) -> Result<Reply, ControlError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ClockOrder {
        advance: Option<String>,
        settle: Option<bool>,
    }
    let now = match request.method {
        Method::GET => world.now().await.map_err(|error| ControlError::internal(error.to_string()))?,
        Method::POST => {
            let moved = match body(&request.body)? {
                ClockOrder { advance: Some(text), settle: None } => {
                    let duration = crate::duration::parse_duration(&text)
                        .map_err(|why| ControlError::bad(format!("advance {text:?}: {why}")))?;
                    world.advance(duration).await
                }
                ClockOrder { advance: None, settle: Some(true) } => world.settle().await,
                _ => return Err(ControlError::bad(r#"expected {"advance": "2m"} or {"settle": true}"#)),
            };
            moved.map_err(|error| ControlError::bad(error.to_string()))?
        }
        _ => return Err(ControlError::method(&request.method, "GET, POST")),
    };
    Ok(reading(world.clock_mode(), now))
}

fn reading(mode: ClockMode, now: Timestamp) -> Reply {
    let mode = match mode {
        ClockMode::Wall => "wall",
        ClockMode::Manual => "manual",
    };
    Reply::json(200, json!({"mode": mode, "now": now.to_string()}).to_string())
}

fn faults(world: &ServedWorld, request: &ApiRequest) -> Result<Reply, ControlError> {
    let query = Query::parse(&request.query);
    let faults = world.server();
    let faults = faults.faults();
    match request.method {
        Method::GET => {
            let Some(name) = query.get("name") else {
                return Err(ControlError::bad("name is missing: GET /plumbline/faults?name=NAME counts a rule's hits"));
            };
            Ok(Reply::json(200, json!({"name": name, "hits": faults.hits(name)}).to_string()))
        }
        Method::POST => {
            let rules = match body::<Value>(&request.body)? {
                Value::Array(rules) => rules,
                rule => vec![rule],
            };
            let read = |(index, rule): (usize, Value)| {
                let rule = serde_json::from_value::<ServedFault>(rule);
                rule.map_err(|error| ControlError::bad(format!("fault rule {}: {error}", index + 1)))
            };
            let rules = rules.into_iter().enumerate().map(read).collect::<Result<Vec<ServedFault>, _>>()?;
            let armed = rules.len();
            if faults.armed() + armed > RULES_MAX {
                return Err(ControlError::conflict(format!(
                    "this world would have more than {RULES_MAX} fault rules: DELETE /plumbline/faults?name=NAME removes those of a name"
                )));
            }
            world.arm(&rules).map_err(|error| ControlError::bad(error.to_string()))?;
            Ok(Reply::json(201, json!({"armed": armed}).to_string()))
        }
        Method::DELETE => Ok(Reply::json(200, json!({"cleared": faults.clear(query.get("name"))}).to_string())),
        _ => Err(ControlError::method(&request.method, "GET, POST, DELETE")),
    }
}

async fn state(world: &ServedWorld, request: &ApiRequest) -> Result<Reply, ControlError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    enum Order {
        Save(String),
        Restore(String),
    }
    let done = |what: Value| Ok(Reply::json(200, what.to_string()));
    match request.method {
        Method::GET => {
            let state = world.save().await.map_err(|error| ControlError::internal(error.to_string()))?;
            let text = serde_json::to_string(&state).map_err(|error| ControlError::internal(error.to_string()))?;
            Ok(Reply::json(200, text))
        }
        Method::PUT => {
            let state: WorldState = body(&request.body)?;
            state.check().map_err(|error| ControlError::bad(error.to_string()))?;
            world.restore(Some(state)).await.map_err(|error| ControlError::bad(error.to_string()))?;
            done(json!({"restored": true}))
        }
        Method::POST => match body(&request.body)? {
            Order::Save(name) => {
                let state = Arc::new(world.save().await.map_err(|error| ControlError::internal(error.to_string()))?);
                let objects = state.objects.len();
                let mut saved = world.saved();
                if saved.len() >= SAVED_MAX && !saved.contains_key(&name) {
                    let why = format!(
                        "this world has {SAVED_MAX} saved states: use one of their names again, or \
                         DELETE /plumbline/state?name=NAME"
                    );
                    return Err(ControlError::conflict(why));
                }
                saved.insert(name.clone(), state);
                drop(saved);
                done(json!({"saved": name, "objects": objects}))
            }
            Order::Restore(name) => {
                let state = world.saved().get(&name).cloned();
                let Some(state) = state else { return Err(not_saved(world, &name)) };
                world
                    .restore(Some(WorldState::clone(&state)))
                    .await
                    .map_err(|error| ControlError::internal(error.to_string()))?;
                done(json!({"restored": name, "objects": state.objects.len()}))
            }
        },
        Method::DELETE => {
            if let Some(name) = Query::parse(&request.query).get("name") {
                let deleted = world.saved().remove(name);
                return deleted.map_or_else(|| Err(not_saved(world, name)), |_| done(json!({"deleted": name})));
            }
            world.restore(None).await.map_err(|error| ControlError::internal(error.to_string()))?;
            done(json!({"reset": true}))
        }
        _ => Err(ControlError::method(&request.method, "GET, PUT, POST, DELETE")),
    }
}

fn not_saved(world: &ServedWorld, name: &str) -> ControlError {
    let names: Vec<String> = world.saved().keys().cloned().collect();
    let others = match names.as_slice() {
        [] => r#"none was: POST {"save": NAME} saves one"#.to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    ControlError::not_found(format!("no state {name:?} was saved in this world; {others}"))
}

/// Returns the transcript as people read it.
fn text(world: &ServedWorld, request: &ApiRequest) -> Result<Reply, ControlError> {
    read_only(request)?;
    Ok(Reply::text(200, transcript_text(world)))
}

/// Returns the transcript of a world as people read it.
pub(super) fn transcript_text(world: &ServedWorld) -> String {
    let server = world.server();
    to_text(&render(server.clock().epoch(), &[], &renumbered(server.transcript().entries())))
}

/// Numbers entries from zero: a server that records for long forgets the older ones.
fn renumbered(mut entries: Vec<TranscriptEntry>) -> Vec<TranscriptEntry> {
    let first = entries.first().map_or(0, |entry| entry.seq);
    for entry in &mut entries {
        entry.seq -= first;
        if let EntryKind::Change(change) = &mut entry.what {
            change.request = change.request.and_then(|request| request.checked_sub(first));
        }
    }
    entries
}
