//! Lists and watches in protobuf, decoded object by object as the bytes arrive: no list is ever held as a whole.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;

use super::{LIST_ENDS, RawEvent, RequestError, Watch};
use crate::api::cache_object::CacheObject;
use crate::api::protobuf::{Fields, MAGIC, ProtoError, VarintError, unwrap_envelope, varint};
use crate::runtime::clock::Clock;

type DataStream = BoxStream<'static, Result<Bytes, kube::Error>>;

fn data(body: Body) -> DataStream {
    body.into_data_stream().boxed()
}

/// The items of a list that is being received.
pub(super) struct ListItems<V> {
    data: DataStream,
    silence: (Clock, Duration),
    parser: ListParser,
    version: String,
    _views: PhantomData<fn() -> V>,
}

impl<V: CacheObject> ListItems<V> {
    /// Creates the items of the list in `body`; a pause of more than `silence` is an error.
    pub(super) fn new(body: Body, silence: (Clock, Duration)) -> Self {
        Self { data: data(body), silence, parser: ListParser::default(), version: String::new(), _views: PhantomData }
    }

    /// Returns the items that the next chunk of the body completes; `None` at the end of the list.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<V>>, RequestError> {
        let (clock, limit) = &self.silence;
        let Some(piece) = clock.timeout(*limit, self.data.next()).await? else {
            return if self.parser.is_complete() { Ok(None) } else { Err(RequestError::Truncated) };
        };
        self.parser.buffer.extend_from_slice(&piece?);
        let mut items = Vec::new();
        let version = &mut self.version;
        let decode = V::PROTOBUF.ok_or(ProtoError::Type)?;
        self.parser.run(|part| {
            match part {
                ListPart::Metadata(metadata) => *version = list_version(metadata)?.into_owned(),
                ListPart::Item(item) => items.push(decode(item)?),
            }
            Ok(())
        })?;
        Ok(Some(items))
    }

    /// Returns the resource version of the list, once it is complete.
    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// Returns `metadata.resourceVersion` of a list.
fn list_version(metadata: &[u8]) -> Result<Cow<'_, str>, ProtoError> {
    let mut version = Cow::default();
    for field in Fields::new(metadata) {
        if let (2, value) = field? {
            version = value.text()?;
        }
    }
    Ok(version)
}

/// A part of a list.
enum ListPart<'a> {
    Metadata(&'a [u8]),
    Item(&'a [u8]),
}

/// Splits a list into parts as its bytes arrive. The list is field 2 of an envelope ([`MAGIC`], fields); field 1 of the
/// list is its metadata, and each field 2 is an item.
#[derive(Default)]
struct ListParser {
    buffer: BytesMut,
    opened: bool,
    /// Remaining bytes of the list, once its start was received.
    left: Option<usize>,
}

impl ListParser {
    fn is_complete(&self) -> bool {
        self.left == Some(0)
    }

    /// Passes every complete part to `take`.
    fn run(&mut self, mut take: impl FnMut(ListPart<'_>) -> Result<(), ProtoError>) -> Result<(), ProtoError> {
        if !self.opened {
            if self.buffer.len() < MAGIC.len() {
                return Ok(());
            }
            if !self.buffer.starts_with(MAGIC) {
                return Err(ProtoError::Magic);
            }
            self.buffer.advance(MAGIC.len());
            self.opened = true;
        }
        while self.left != Some(0) {
            let Some((number, header, length)) = head(&self.buffer)? else { return Ok(()) };
            if self.left.is_none() && number == 2 {
                self.buffer.advance(header);
                self.left = Some(length);
                continue;
            }
            let whole = header.checked_add(length).ok_or(ProtoError::Torn)?;
            let Some(field) = self.buffer.get(header..whole) else { return Ok(()) };
            if let Some(left) = &mut self.left {
                *left = left.checked_sub(whole).ok_or(ProtoError::Torn)?;
                match number {
                    1 => take(ListPart::Metadata(field))?,
                    2 => take(ListPart::Item(field))?,
                    _ => {}
                }
            }
            self.buffer.advance(whole);
        }
        Ok(())
    }
}

/// Returns number, header length and content length of the field at the start of `bytes`, which must have the wire type
/// of bytes; `None` if the header is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(u32, usize, usize)>, ProtoError> {
    let number = |bytes| match varint(bytes) {
        Ok(found) => Ok(Some(found)),
        Err(VarintError::Torn) => Ok(None),
        Err(VarintError::TooLong) => Err(ProtoError::Field(0)),
    };
    let Some((tag, rest)) = number(bytes)? else { return Ok(None) };
    let field = u32::try_from(tag >> 3).map_err(|_| ProtoError::Field(0))?;
    if tag & 7 != 2 {
        return Err(ProtoError::Field(field));
    }
    let Some((length, rest)) = number(rest)? else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| ProtoError::Torn)?;
    Ok(Some((field, bytes.len() - rest.len(), length)))
}

/// Returns the events of a watch; each is preceded by its length in four bytes.
pub(super) fn events<V: CacheObject>(body: Body) -> Watch<V> {
    let state = (data(body), BytesMut::new(), VecDeque::new());
    let next = |(mut data, mut buffer, mut ready): (
        DataStream,
        BytesMut,
        VecDeque<Result<RawEvent<V>, RequestError>>,
    )| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((event, (data, buffer, ready)));
            }
            match data.next().await? {
                Ok(piece) => buffer.extend_from_slice(&piece),
                Err(error) => ready.push_back(Err(error.into())),
            }
            while let Some(frame) = frame(&mut buffer) {
                ready.push_back(event(&frame).map_err(RequestError::from));
            }
        }
    };
    stream::unfold(state, next).boxed()
}

fn frame(buffer: &mut BytesMut) -> Option<BytesMut> {
    let length = u32::from_be_bytes(*buffer.first_chunk()?) as usize;
    if buffer.len() - 4 < length {
        return None;
    }
    buffer.advance(4);
    Some(buffer.split_to(length))
}

/// Decodes a `metav1.WatchEvent`.
fn event<V: CacheObject>(frame: &[u8]) -> Result<RawEvent<V>, ProtoError> {
    let (mut kind, mut object): (_, &[u8]) = (Cow::default(), &[]);
    for field in Fields::new(frame) {
        match field? {
            (1, value) => kind = value.text()?,
            (2, extension) => {
                for field in extension.message()? {
                    if let (1, raw) = field? {
                        object = raw.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    let (_, object) = unwrap_envelope(object)?;
    let view = || V::PROTOBUF.ok_or(ProtoError::Type)?(object);
    let version = |view: &V| view.resource_version().to_owned();
    Ok(match &*kind {
        "ADDED" | "MODIFIED" => {
            let view = view()?;
            let version = version(&view);
            RawEvent::Applied(view, version)
        }
        "DELETED" => {
            let view = view()?;
            let version = version(&view);
            RawEvent::Deleted(view, version)
        }
        "BOOKMARK" => bookmark(object)?,
        "ERROR" => RawEvent::Error(Box::new(status_message(object)?)),
        _ => return Err(ProtoError::Type),
    })
}

/// Decodes a bookmark: only the metadata of its object is set, field 1 of every kind.
fn bookmark<V>(object: &[u8]) -> Result<RawEvent<V>, ProtoError> {
    let mut version = Cow::default();
    let mut ends_list = false;
    for field in Fields::new(object) {
        let (1, metadata) = field? else { continue };
        for field in metadata.message()? {
            match field? {
                (6, value) => version = value.text()?,
                (12, annotation) => {
                    for field in annotation.message()? {
                        if let (1, key) = field? {
                            ends_list |= key.text()? == LIST_ENDS;
                        }
                    }
                }
                _ => {}
            }
        }
    }
    Ok(RawEvent::Bookmark { version: version.into_owned(), ends_list })
}

/// Decodes the `metav1.Status` in an error body in either encoding; for any other body, returns one with the HTTP code.
pub(super) fn status(body: &[u8], code: u16) -> Status {
    let decoded = match unwrap_envelope(body) {
        Ok((_, message)) => status_message(message).ok(),
        Err(_) => serde_json::from_slice(body).ok(),
    };
    let mut status = decoded.unwrap_or_else(|| {
        let message = String::from_utf8_lossy(&body[..body.len().min(200)]);
        Status::failure(&message, "Unreadable")
    });
    if status.code == 0 {
        status.code = code;
    }
    status
}

fn status_message(message: &[u8]) -> Result<Status, ProtoError> {
    let mut text = Cow::default();
    let mut reason = Cow::default();
    let mut code = 0;
    for field in Fields::new(message) {
        match field? {
            (3, value) => text = value.text()?,
            (4, value) => reason = value.text()?,
            (6, value) => code = u16::try_from(value.integer()?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(Status { code, ..Status::failure(&text, &reason) })
}

#[cfg(test)]
mod tests;
