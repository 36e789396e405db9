//! Sends one request.

use http::{Method, Request};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runtime::client::RepeatWhile;
use crate::runtime::error::ApiError;

pub(super) const JSON: &str = "application/json";

pub(super) async fn request<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> Result<T, ApiError> {
    Ok(client.request(build(method, path, content_type, body)?).await?)
}

/// Like [`request`], but the client repeats the request only while `wanted` holds.
pub(super) async fn request_while<T: DeserializeOwned>(
    client: &Client,
    (method, path): (Method, &str),
    content_type: &str,
    body: Option<&Value>,
    wanted: RepeatWhile,
) -> Result<T, ApiError> {
    let mut request = build(method, path, content_type, body)?;
    request.extensions_mut().insert(wanted);
    Ok(client.request(request).await?)
}

fn build(method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Result<Request<Vec<u8>>, ApiError> {
    let bytes = body.map(serde_json::to_vec).transpose().map_err(|error| ApiError::Transport(error.to_string()))?;
    let mut builder = Request::builder().method(method).uri(path).header(http::header::ACCEPT, JSON);
    if bytes.is_some() {
        builder = builder.header(http::header::CONTENT_TYPE, content_type);
    }
    Ok(builder.body(bytes.unwrap_or_default()).map_err(kube::Error::HttpError)?)
}
