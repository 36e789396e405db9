//! Compresses long replies for clients that accept gzip. See
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go`.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, StreamExt as _};
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use crate::request::{BodyStream, GzipThreshold, Reply, ReplyBody};

/// Returns true if `Accept-Encoding` names gzip; as upstream, without parameters.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|token| token.trim() == "gzip"))
}

/// Length in bytes of a body whose compression takes so long that it gets a thread of its own.
const LONG: usize = 256 << 10;

/// Compresses a reply that is longer than its handler says. A stream with such a limit is a list, which is long.
pub(super) async fn compress(mut reply: Reply) -> Reply {
    let Some(GzipThreshold(limit)) = reply.extensions.get().copied() else { return reply };
    reply.body = match reply.body {
        ReplyBody::Full(bytes) if bytes.len() <= limit => return Reply { body: ReplyBody::Full(bytes), ..reply },
        ReplyBody::Full(bytes) if bytes.len() < LONG => ReplyBody::Full(compressed(&bytes)),
        // Dropped requests leave at most this one piece of work behind.
        ReplyBody::Full(bytes) => {
            ReplyBody::Full(tokio::task::spawn_blocking(move || compressed(&bytes)).await.unwrap_or_default())
        }
        ReplyBody::Stream(pieces) => ReplyBody::Stream(compressed_stream(pieces)),
    };
    reply.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let varies = HeaderValue::from_static("Accept-Encoding");
    if reply.headers.get_all(VARY).iter().all(|known| known != varies) {
        reply.headers.append(VARY, varies);
    }
    reply
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}

fn compressed(bytes: &[u8]) -> Bytes {
    let mut encoder = encoder();
    // Writing to memory does not fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default().into()
}

fn compressed_stream(pieces: BodyStream) -> BodyStream {
    let next = async |(mut pieces, encoder): (BodyStream, Option<GzEncoder<Vec<u8>>>)| {
        let mut encoder = encoder?;
        match pieces.next().await {
            Some(Ok(piece)) => {
                let written = encoder.write_all(&piece).map(|()| std::mem::take(encoder.get_mut()).into());
                Some((written, (pieces, Some(encoder))))
            }
            Some(Err(error)) => Some((Err(error), (pieces, None))),
            None => Some((encoder.finish().map(Bytes::from), (pieces, None))),
        }
    };
    Box::pin(stream::unfold((pieces, Some(encoder())), next))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use futures::{FutureExt as _, TryStreamExt as _};
    use rstest::rstest;

    use super::*;

    /// `TestSerializeObject` in `writers_test.go` next to upstream's file.
    #[rstest]
    #[case("gzip", true)]
    #[case("deflate, gzip", true)]
    #[case(" gzip ,br", true)]
    #[case("deflate", false)]
    #[case("gzip;q=1.0", false)]
    #[case("*", false)]
    #[case("", false)]
    fn clients(#[case] header: &str, #[case] expected: bool) {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(header).unwrap())]);
        assert_eq!(accepts_gzip(&headers), expected);
    }

    fn reply(body: ReplyBody) -> Reply {
        let mut reply = Reply { body, ..Reply::json(200, "") };
        reply.extensions.insert(GzipThreshold::OBJECT);
        reply
    }

    #[rstest]
    #[case(128 << 10, false)]
    #[case((128 << 10) + 1, true)]
    #[case(1 << 20, true)]
    #[tokio::test]
    async fn long_replies_are_compressed(#[case] size: usize, #[case] expected: bool) {
        let content = vec![b'a'; size];
        let compressed = compress(reply(ReplyBody::Full(content.clone().into()))).await;
        assert_eq!(compressed.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip"), expected);
        assert_eq!(compressed.headers.get(VARY).is_some_and(|varies| varies == "Accept-Encoding"), expected);
        let ReplyBody::Full(bytes) = compressed.body else { panic!("no stream") };
        let mut decoded = Vec::new();
        if expected {
            GzDecoder::new(&bytes[..]).read_to_end(&mut decoded).unwrap();
        } else {
            decoded = bytes.to_vec();
        }
        assert!(decoded == content, "the same content");
    }

    #[test]
    fn lists_are_compressed_while_they_are_sent() {
        let pieces = vec![Ok(Bytes::from_static(b"{\"items\":[")), Ok(Bytes::from_static(b"]}"))];
        let compressed = compress(reply(ReplyBody::Stream(Box::pin(stream::iter(pieces)))));
        let compressed = compressed.now_or_never().unwrap();
        let ReplyBody::Stream(stream) = compressed.body else { panic!("a stream") };
        let sent: Vec<Bytes> = stream.try_collect().now_or_never().unwrap().unwrap();
        let mut decoded = String::new();
        GzDecoder::new(&sent.concat()[..]).read_to_string(&mut decoded).unwrap();
        assert_eq!(decoded, "{\"items\":[]}");
    }

    #[test]
    fn other_replies_stay() {
        let compressed = compress(Reply::json(200, vec![b'a'; 1 << 20])).now_or_never().unwrap();
        assert!(compressed.headers.get(CONTENT_ENCODING).is_none());
    }
}
