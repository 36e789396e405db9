//! Lists a resource and then watches it, as events for an informer.
//!
//! The requests depend on the encoding:
//!
//! | | JSON | protobuf |
//! | --- | --- | --- |
//! | initial list | pages of 500 | one stream: a `WatchList` if the server supports it, else a list |
//! | version | the newest | `WatchList`: the newest; list: any in the server's memory, but not older than observed |
//! | memory | one page | one object |
//!
//! A failed request is returned to the caller, who waits and asks for the next event. A failed list starts again, a
//! watch is resumed at its last version, and an expired version (410) leads to a new list. So does an event that cannot
//! be decoded, as in client-go: it is unknown which object it was about.

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

/// Number of objects in a page of a JSON list, as client-go.
pub const PAGE_SIZE: u32 = 500;
/// The timeout of a watch that is requested from the server, in seconds.
pub const WATCH_SECONDS: u32 = 290;
/// A watch without data for longer than its requested timeout is dead.
const WATCH_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// A watch that ends sooner than this, without an event, counts as failed, as client-go's `VeryShortWatchError`: a
/// server or proxy that ends all of them must not get one request after the other.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// A list whose stream pauses for longer than this is dead.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// The annotation of the bookmark that ends the initial part of a `WatchList`.
const LIST_ENDS: &str = "k8s.io/initial-events-end";
/// Accept header of protobuf requests: a server without protobuf may respond in JSON.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// An event of a [`ListWatch`].
#[derive(Debug)]
pub(super) enum ListWatchEvent<V> {
    /// A list begins: discard a previous incomplete list.
    Init,
    /// Some objects of the list.
    InitApply(Vec<V>),
    /// An object of the current list was deleted already.
    InitDelete(V),
    /// The list is complete.
    InitDone,
    /// An object was added or changed.
    Apply(V),
    /// An object was deleted; its last state.
    Delete(V),
}

/// The error of a list or watch.
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
    #[error("response has no resourceVersion")]
    NoResourceVersion,
    #[error("list response is truncated")]
    Truncated,
    #[error("the watch ended within a second, without an event")]
    ShortWatch,
    #[error(transparent)]
    Silent(#[from] Elapsed),
    #[error(transparent)]
    Protobuf(#[from] ProtoError),
}

impl ListWatchError {
    /// Returns true if an event of a watch cannot be decoded. The next step is a list, which may succeed although the
    /// next watch may contain the same kind of event.
    pub(super) fn is_unreadable_event(&self) -> bool {
        matches!(self, Self::Watch(cause) if cause.is_unreadable())
    }
}

impl RequestError {
    /// Returns true for an undecodable event. kube decodes any JSON that is not an event as a Status, since nearly
    /// every object matches it.
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

/// An event of a watch, in any encoding.
#[derive(Debug)]
enum RawEvent<V> {
    Applied(V, String),
    Deleted(V, String),
    Bookmark { version: String, ends_list: bool },
    Error(Box<Status>),
}

type Watch<V> = BoxStream<'static, Result<RawEvent<V>, RequestError>>;

enum ListWatchState<V> {
    /// Nothing was listed yet.
    Empty,
    /// Within a list of pages.
    InitPage {
        token: String,
    },
    /// Within a streamed list.
    InitStream(ListItems<V>),
    /// Within the initial part of a `WatchList`.
    InitialWatch(Watch<V>),
    /// All objects of the list were returned; [`ListWatchEvent::InitDone`] is next.
    InitListed {
        watch: Option<Watch<V>>,
    },
    /// The watch has to be started at the known version.
    Idle,
    Watching(Watch<V>),
}

/// Lists and watches the objects that `V` views.
pub(super) struct ListWatch<V> {
    client: Client,
    clock: Clock,
    requests: Requests,
    encoding: Encoding,
    /// `false` after the server rejected a `WatchList`.
    use_watch_list: bool,
    /// `true` if the next list must be of the newest version, because the server does not have the observed one.
    newest: bool,
    /// The resource version of the last list, event or bookmark.
    version: String,
    /// `true` if the last list was made because the version had expired, and no watch has returned an event since.
    expired: bool,
    /// The monotonic time at which the watch was opened, until its first event.
    opened: Option<Duration>,
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
            opened: None,
            state: ListWatchState::Empty,
        }
    }

    /// Returns the next event. After an error, call it again after a delay.
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

    /// Starts a `WatchList`. After any error a plain list is next: servers without the feature reject it in several
    /// ways.
    async fn start_watch_list(&mut self) {
        let params = WatchParams { send_initial_events: true, ..watch_params() };
        match self.open_watch(&params, "").await {
            Ok(Some(watch)) => self.state = ListWatchState::InitialWatch(watch),
            Ok(None) => {}
            Err(cause) => self.fall_back_to_list(&cause),
        }
    }

    fn fall_back_to_list(&mut self, cause: &RequestError) {
        tracing::debug!(error = super::error::chain(cause), "the server does not support WatchList, listing instead");
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

    /// Starts a list that is streamed from the server's memory. The first list may be of any version, as client-go's,
    /// later ones not older than observed.
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
                // The version was compacted, or is too large for a server that lags behind.
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
            Ok(Some(watch)) => {
                self.opened = Some(self.clock.monotonic());
                self.state = ListWatchState::Watching(watch);
            }
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
        let opened = self.opened.take();
        let Ok(Some(seen)) = silence else {
            self.state = ListWatchState::Idle;
            let is_short = opened.is_some_and(|at| self.clock.monotonic().saturating_sub(at) < SHORT_WATCH);
            return if is_short { Err(ListWatchError::Watch(RequestError::ShortWatch)) } else { Ok(None) };
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

    /// Handles an expired version. This is normal, so the new list starts at once, but not twice in a row without an
    /// event of a watch in between.
    fn expire(&mut self, failure: ListWatchError) -> Result<(), ListWatchError> {
        self.state = ListWatchState::Empty;
        if std::mem::replace(&mut self.expired, true) {
            return Err(failure);
        }
        tracing::info!(resource = %V::Resource::plural(&()), error = super::error::chain(&failure), "listing again");
        Ok(())
    }

    /// Opens a watch. `None` if the server does not support protobuf: the list starts again in JSON.
    async fn open_watch(&mut self, params: &WatchParams, version: &str) -> Result<Option<Watch<V>>, RequestError> {
        let request = self.requests.watch(params, version).map_err(kube::Error::BuildRequest)?;
        if self.encoding == Encoding::Protobuf {
            let answer = self.send(request).await?;
            return Ok(answer.map(|answer| protobuf::events(answer.into_body())));
        }
        let events = self.client.request_events::<V>(request).await?;
        Ok(Some(events.map(|event| event.map(raw_event).map_err(RequestError::Kube)).boxed()))
    }

    /// Requests protobuf. `None` if the response is not protobuf: the list starts again in JSON.
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
        tracing::info!(resource = %V::Resource::plural(&()), "the server does not support protobuf, using JSON");
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
