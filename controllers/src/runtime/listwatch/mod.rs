//! One list and then one watch after the other of a resource: what an informer lives on.
//!
//! Two ways, by what the server speaks:
//!
//! | | in JSON | in protobuf |
//! | --- | --- | --- |
//! | first list | pages of 500, read at the server's newest version | one stream: a `WatchList` where the server has it, else a list |
//! | of which version | the newest | for a `WatchList` the newest; a list's is any the server has in memory, never older than seen |
//! | memory | one page | one object |
//!
//! A failed request is told to the caller, who waits and asks for the next event: a failed list begins anew, a watch goes
//! on where it was, and what the server no longer knows (410) is listed again. So is everything after an event that cannot
//! be read, as client-go does: nobody knows which object it told of.

mod protobuf;

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request as Requests, Status, WatchEvent};
use kube::{Client, Resource as _};
use serde::{Deserialize, Deserializer};

use self::protobuf::ListItems;
use super::client::{Encoding, StreamResponse};
use super::clock::{Clock, Elapsed};
use crate::api::cache_object::CacheObject;
use crate::api::protobuf::ProtoError;

/// Objects in a page of a JSON list, as client-go.
pub const PAGE_SIZE: u32 = 500;
/// How long the server lets a watch last when asked nicely, seconds.
pub const WATCH_SECONDS: u32 = 290;
/// A watch that is silent for longer than it should last at all is dead.
const WATCH_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// A list whose stream is silent for so long is dead.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// The annotation of the bookmark that ends the first part of a `WatchList`.
const LIST_ENDS: &str = "k8s.io/initial-events-end";
/// What is accepted where protobuf is asked for: a server without it may answer in JSON.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What a [`ListWatch`] has to tell.
#[derive(Debug)]
pub(super) enum ListWatchEvent<V> {
    /// A list begins: what was listed before counts for nothing.
    Init,
    /// A part of the list.
    InitApply(Vec<V>),
    /// An object of the list that is under way is gone already.
    InitDelete(V),
    /// The list is whole.
    InitDone,
    /// An object came or changed.
    Apply(V),
    /// An object is gone; its last state.
    Delete(V),
}

/// Why there is no event.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListWatchError {
    #[error("unable to list")]
    List(#[source] RequestError),
    #[error("unable to watch")]
    StartWatch(#[source] RequestError),
    #[error("watch failed")]
    Watch(#[source] RequestError),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("{}: {}", .0.reason, .0.message)]
    Status(Box<Status>),
    #[error("the server does not say of which resource version its answer is")]
    NoResourceVersion,
    #[error("the list ends before its end")]
    Truncated,
    #[error(transparent)]
    Silent(#[from] Elapsed),
    #[error(transparent)]
    Protobuf(#[from] ProtoError),
}

impl ListWatchError {
    /// Whether a watch told something that cannot be read. A list is next, and may well work although the watch after it
    /// tells the same kind of thing again.
    pub(super) fn is_unreadable_event(&self) -> bool {
        matches!(self, Self::Watch(cause) if cause.is_unreadable())
    }
}

impl RequestError {
    /// Of an event. In JSON, whatever is no event is taken for a bare Status by kube: nearly everything can be read as one.
    fn is_unreadable(&self) -> bool {
        matches!(self, Self::Protobuf(_) | Self::Kube(kube::Error::SerdeError(_) | kube::Error::Api(_)))
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Kube(kube::Error::Api(status)) | Self::Status(status) => Some(status.code),
            _ => None,
        }
    }
}

/// What a watch tells, whatever its encoding.
#[derive(Debug)]
enum RawEvent<V> {
    Applied(V, String),
    Deleted(V, String),
    Bookmark { version: String, ends_list: bool },
    Error(Box<Status>),
}

type Watch<V> = BoxStream<'static, Result<RawEvent<V>, RequestError>>;

enum ListWatchState<V> {
    /// Nothing is known.
    Empty,
    /// In the middle of a list of pages.
    InitPage {
        token: String,
    },
    /// In the middle of a streamed list.
    InitStream(ListItems<V>),
    /// In the first part of a `WatchList`.
    InitialWatch(Watch<V>),
    /// The list has been handed out, but for saying so.
    InitListed {
        watch: Option<Watch<V>>,
    },
    /// To be watched from the version on.
    Idle,
    Watching(Watch<V>),
}

/// Lists and watches the objects that `V` views.
pub(super) struct ListWatch<V> {
    client: Client,
    clock: Clock,
    requests: Requests,
    encoding: Encoding,
    /// Until the server refuses.
    use_watch_list: bool,
    /// Whether the next list must be of the newest version, because the server does not have the one that was seen.
    newest: bool,
    /// The version that is known: of the last list, event or bookmark.
    version: String,
    /// Whether the last list was made because that version had expired, and no watch has told anything since.
    expired: bool,
    state: ListWatchState<V>,
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "V: Deserialize<'de>")]
struct ListPage<V> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    items: Vec<V>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    token: Option<String>,
}

fn null_is_empty<'de, V: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<V>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl<V: CacheObject> ListWatch<V> {
    pub(super) fn new(client: Client, clock: Clock, encoding: Encoding) -> Self {
        let encoding = if V::PROTOBUF.is_some() { encoding } else { Encoding::Json };
        Self {
            client,
            clock,
            requests: Requests::new(V::Resource::url_path(&(), None)),
            encoding,
            use_watch_list: encoding == Encoding::Protobuf,
            newest: false,
            version: String::new(),
            expired: false,
            state: ListWatchState::Empty,
        }
    }

    /// The next event. After a failure it may be asked again, after a pause.
    pub(super) async fn next(&mut self) -> Result<ListWatchEvent<V>, ListWatchError> {
        loop {
            let event = match std::mem::replace(&mut self.state, ListWatchState::Empty) {
                ListWatchState::Empty => Some(self.start_list().await?),
                ListWatchState::InitPage { token } => Some(self.list_page(&token).await?),
                ListWatchState::InitStream(items) => self.next_stream_items(items).await?,
                ListWatchState::InitialWatch(watch) => self.next_initial_event(watch).await,
                ListWatchState::InitListed { watch } => {
                    self.state = watch.map_or(ListWatchState::Idle, ListWatchState::Watching);
                    Some(ListWatchEvent::InitDone)
                }
                ListWatchState::Idle => {
                    self.start_watch().await?;
                    None
                }
                ListWatchState::Watching(watch) => self.next_watch_event(watch).await?,
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    async fn start_list(&mut self) -> Result<ListWatchEvent<V>, ListWatchError> {
        match self.encoding {
            Encoding::Json => self.state = ListWatchState::InitPage { token: String::new() },
            Encoding::Protobuf if self.use_watch_list => self.start_watch_list().await,
            Encoding::Protobuf => self.start_stream().await?,
        }
        Ok(ListWatchEvent::Init)
    }

    async fn list_page(&mut self, token: &str) -> Result<ListWatchEvent<V>, ListWatchError> {
        let continue_token = (!token.is_empty()).then(|| token.to_owned());
        let params = ListParams { limit: Some(PAGE_SIZE), continue_token, ..ListParams::default() };
        let list = async {
            let request = self.requests.list(&params).map_err(kube::Error::BuildRequest)?;
            self.client.request::<ListPage<V>>(request).await
        };
        let ListPage { metadata, items } = list.await.map_err(|error| ListWatchError::List(error.into()))?;
        let full = |text: Option<String>| text.filter(|text| !text.is_empty());
        self.state = match (full(metadata.token), full(metadata.resource_version)) {
            (Some(token), _) => ListWatchState::InitPage { token },
            (None, Some(version)) => {
                self.version = version;
                ListWatchState::InitListed { watch: None }
            }
            (None, None) => return Err(ListWatchError::List(RequestError::NoResourceVersion)),
        };
        Ok(ListWatchEvent::InitApply(items))
    }

    /// Begins a `WatchList`. Whatever goes wrong with it, a list is tried next: one of the two must work, and a server
    /// without the feature refuses in more than one way.
    async fn start_watch_list(&mut self) {
        let params = WatchParams { send_initial_events: true, ..watch_params() };
        match self.open_watch(&params, "").await {
            Ok(Some(watch)) => self.state = ListWatchState::InitialWatch(watch),
            Ok(None) => {}
            Err(cause) => self.fall_back_to_list(&cause),
        }
    }

    fn fall_back_to_list(&mut self, cause: &RequestError) {
        tracing::debug!(error = super::error::chain(cause), "no WatchList from this server, listing instead");
        self.use_watch_list = false;
        self.state = ListWatchState::Empty;
    }

    async fn next_initial_event(&mut self, mut watch: Watch<V>) -> Option<ListWatchEvent<V>> {
        match self.clock.timeout(WATCH_SILENCE, watch.next()).await {
            Ok(Some(Ok(RawEvent::Applied(object, _)))) => {
                self.state = ListWatchState::InitialWatch(watch);
                return Some(ListWatchEvent::InitApply(vec![object]));
            }
            Ok(Some(Ok(RawEvent::Bookmark { version, ends_list: true }))) => {
                self.version = version;
                self.state = ListWatchState::InitListed { watch: Some(watch) };
            }
            Ok(Some(Ok(RawEvent::Deleted(object, _)))) => {
                self.state = ListWatchState::InitialWatch(watch);
                return Some(ListWatchEvent::InitDelete(object));
            }
            Ok(Some(Ok(RawEvent::Bookmark { .. }))) => self.state = ListWatchState::InitialWatch(watch),
            Ok(Some(Ok(RawEvent::Error(status)))) => self.fall_back_to_list(&RequestError::Status(status)),
            Ok(Some(Err(cause))) => self.fall_back_to_list(&cause),
            Ok(None) => self.fall_back_to_list(&RequestError::Truncated),
            Err(silent) => self.fall_back_to_list(&silent.into()),
        }
        None
    }

    /// Begins a list that is streamed from what the server has in memory. The first may be of any version, as client-go's,
    /// later ones of none older than what was seen.
    async fn start_stream(&mut self) -> Result<(), ListWatchError> {
        let version = match (self.newest, self.version.as_str()) {
            (true, _) => None,
            (false, "") => Some("0".to_owned()),
            (false, seen) => Some(seen.to_owned()),
        };
        let params = ListParams { resource_version: version, ..ListParams::default() };
        let request = self.requests.list(&params).map_err(|error| list_failure(kube::Error::BuildRequest(error)))?;
        match self.send(request).await {
            Ok(Some(answer)) => {
                let silence = (self.clock.clone(), LIST_SILENCE);
                self.state = ListWatchState::InitStream(ListItems::new(answer.into_body(), silence));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(cause) => {
                // Compacted away, or "too large": a server that is behind.
                self.newest = matches!(cause.code(), Some(410 | 504));
                Err(ListWatchError::List(cause))
            }
        }
    }

    async fn next_stream_items(
        &mut self,
        mut items: ListItems<V>,
    ) -> Result<Option<ListWatchEvent<V>>, ListWatchError> {
        let part = items.next().await.map_err(ListWatchError::List)?;
        let Some(part) = part else {
            let version = items.version();
            if version.is_empty() {
                return Err(ListWatchError::List(RequestError::NoResourceVersion));
            }
            version.clone_into(&mut self.version);
            self.newest = false;
            self.state = ListWatchState::InitListed { watch: None };
            return Ok(None);
        };
        self.state = ListWatchState::InitStream(items);
        Ok((!part.is_empty()).then_some(ListWatchEvent::InitApply(part)))
    }

    async fn start_watch(&mut self) -> Result<(), ListWatchError> {
        let version = self.version.clone();
        match self.open_watch(&watch_params(), &version).await {
            Ok(Some(watch)) => self.state = ListWatchState::Watching(watch),
            Ok(None) => {}
            Err(cause) => {
                if cause.code() == Some(410) {
                    return self.expire(ListWatchError::StartWatch(cause));
                }
                self.state = ListWatchState::Idle;
                return Err(ListWatchError::StartWatch(cause));
            }
        }
        Ok(())
    }

    async fn next_watch_event(&mut self, mut watch: Watch<V>) -> Result<Option<ListWatchEvent<V>>, ListWatchError> {
        let silence = self.clock.timeout(WATCH_SILENCE, watch.next()).await;
        let Ok(Some(seen)) = silence else {
            self.state = ListWatchState::Idle;
            return Ok(None);
        };
        let (event, version) = match seen {
            Ok(RawEvent::Applied(object, version)) => (Some(ListWatchEvent::Apply(object)), version),
            Ok(RawEvent::Deleted(object, version)) => (Some(ListWatchEvent::Delete(object)), version),
            Ok(RawEvent::Bookmark { version, .. }) => (None, version),
            Ok(RawEvent::Error(status)) => {
                if status.code == 410 {
                    return self.expire(ListWatchError::Watch(RequestError::Status(status))).map(|()| None);
                }
                self.state = ListWatchState::Watching(watch);
                return Err(ListWatchError::Watch(RequestError::Status(status)));
            }
            Err(cause) => {
                if !cause.is_unreadable() {
                    self.state = ListWatchState::Watching(watch);
                }
                return Err(ListWatchError::Watch(cause));
            }
        };
        if version.is_empty() {
            return Err(ListWatchError::Watch(RequestError::NoResourceVersion));
        }
        self.version = version;
        self.expired = false;
        self.state = ListWatchState::Watching(watch);
        Ok(event)
    }

    /// The server has forgotten the version that was seen last. That is no sign of trouble, so the new list is asked for at once;
    /// but not twice in a row without a word from a watch between.
    fn expire(&mut self, failure: ListWatchError) -> Result<(), ListWatchError> {
        self.state = ListWatchState::Empty;
        if std::mem::replace(&mut self.expired, true) {
            return Err(failure);
        }
        tracing::info!(resource = %V::Resource::plural(&()), error = super::error::chain(&failure), "listing again");
        Ok(())
    }

    /// Opens a watch. `None`: the server does not speak protobuf, so everything begins anew in JSON.
    async fn open_watch(&mut self, params: &WatchParams, version: &str) -> Result<Option<Watch<V>>, RequestError> {
        let request = self.requests.watch(params, version).map_err(kube::Error::BuildRequest)?;
        if self.encoding == Encoding::Protobuf {
            let answer = self.send(request).await?;
            return Ok(answer.map(|answer| protobuf::events(answer.into_body())));
        }
        let events = self.client.request_events::<V>(request).await?;
        Ok(Some(events.map(|event| event.map(raw_event).map_err(RequestError::Kube)).boxed()))
    }

    /// Asks for protobuf. `None`: the answer is not, so everything begins anew in JSON.
    async fn send(&mut self, request: Request<Vec<u8>>) -> Result<Option<Response<Body>>, RequestError> {
        let mut request = request.map(Body::from);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(PROTOBUF_OR_JSON));
        request.extensions_mut().insert(StreamResponse);
        let answer = self.client.send(request).await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_protobuf = kind.starts_with(PROTOBUF);
        if !answer.status().is_success() {
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await?.to_bytes();
            return Err(RequestError::Status(Box::new(protobuf::status(&body, code))));
        }
        if is_protobuf {
            return Ok(Some(answer));
        }
        tracing::info!(resource = %V::Resource::plural(&()), "the server does not speak protobuf, going on in JSON");
        self.encoding = Encoding::Json;
        self.state = ListWatchState::Empty;
        Ok(None)
    }
}

fn list_failure(error: kube::Error) -> ListWatchError {
    ListWatchError::List(error.into())
}

fn watch_params() -> WatchParams {
    WatchParams { timeout: Some(WATCH_SECONDS), ..WatchParams::default() }
}

fn raw_event<V: CacheObject>(event: WatchEvent<V>) -> RawEvent<V> {
    let version = |object: &V| object.resource_version().to_owned();
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let version = version(&object);
            RawEvent::Applied(object, version)
        }
        WatchEvent::Deleted(object) => {
            let version = version(&object);
            RawEvent::Deleted(object, version)
        }
        WatchEvent::Bookmark(bookmark) => {
            let ends_list = bookmark.metadata.annotations.contains_key(LIST_ENDS);
            RawEvent::Bookmark { version: bookmark.metadata.resource_version, ends_list }
        }
        WatchEvent::Error(status) => RawEvent::Error(status.boxed()),
    }
}
