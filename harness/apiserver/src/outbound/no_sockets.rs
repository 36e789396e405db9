//! The module `https` of a server without the feature `listener`: every request fails.

use std::future::{Ready, ready};

use super::error::OutboundError;
use super::exchange::{Answer, OutboundRequest};
use super::target::Endpoint;
use crate::request::BodyStream;

/// The connections of a server that has none.
#[derive(Debug, Default)]
pub(super) struct IdleConnections;

/// Refuses to send a request.
pub(super) fn send(
    _: &IdleConnections,
    _: &Endpoint,
    _: OutboundRequest,
    _: usize,
) -> Ready<Result<Answer, OutboundError>> {
    ready(Err(OutboundError::NoHandler))
}

/// Refuses to send a request whose response is a stream.
pub(super) fn forward(
    _: &Endpoint,
    _: OutboundRequest,
) -> Ready<Result<(http::response::Parts, BodyStream), OutboundError>> {
    ready(Err(OutboundError::NoHandler))
}
