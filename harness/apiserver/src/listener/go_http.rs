//! Requests that Go's `net/http` server rejects before any handler runs and hyper accepts.
//! See `readRequest` in Go's `net/http/server.go`.

use http::{Method, Request, Version, header};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::request::Reply;

/// Returns true if a connection that should begin with a TLS handshake begins with a plain HTTP request.
pub(super) async fn is_plain(stream: &TcpStream) -> bool {
    let mut start = [0; 5];
    let read = stream.peek(&mut start).await.unwrap_or(0);
    matches!(&start[..read], b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO" | b"PATCH" | b"DELET")
}

/// Replies in plain text that the port expects HTTPS, as Go's server does.
pub(super) async fn refuse_plain(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n").await?;
    stream.shutdown().await
}

/// Returns the reply to a request that Go's server answers by itself; `None` for all others.
pub(super) fn early_reply<B>(request: &Request<B>) -> Option<Reply> {
    let headers = request.headers();
    if request.version() == Version::HTTP_11 {
        let hosts = headers.get_all(header::HOST).iter().count();
        if hosts == 0 {
            return Some(Reply::text(400, "400 Bad Request: missing required Host header"));
        }
        if hosts > 1 {
            return Some(Reply::text(400, "400 Bad Request"));
        }
        let expected = headers.get(header::EXPECT);
        if expected.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            return Some(Reply::text(417, ""));
        }
    }
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some(Reply::text(200, ""));
    }
    (!is_escaped(request.uri().path())).then(|| Reply::text(400, "400 Bad Request"))
}

/// Returns true if every `%` of a path is followed by two hexadecimal digits.
fn is_escaped(path: &str) -> bool {
    let mut parts = path.split('%');
    parts.next();
    parts.all(|part| part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("/api", true)]
    #[case::escaped("/a%2Fb%20", true)]
    #[case::not_hex("/a%zz", false)]
    #[case::cut_off("/a%2", false)]
    fn escapes(#[case] path: &str, #[case] fine: bool) {
        assert_eq!(is_escaped(path), fine);
    }
}
