//! Minimal handwritten HTTP/2 for hostile clients: frames, and headers that do not use the dynamic table.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::TOKEN;

pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal header field without indexing (RFC 7541, 6.2.2), values shorter than 127 bytes.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("short");
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// A HEADERS frame of a request; with `body` the stream stays open for it.
pub(crate) fn head(stream: u32, method: &str, path: &str, content_type: &str, body: bool) -> Vec<u8> {
    let mut fields = [
        field(":method", method),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "x"),
        field("authorization", &format!("Bearer {TOKEN}")),
    ]
    .concat();
    if !content_type.is_empty() {
        fields.extend(field("content-type", content_type));
    }
    frame(HEADERS, END_HEADERS | if body { 0 } else { END_STREAM }, stream, &fields)
}

/// Sends the preface and opens the flow-control windows for the server's replies.
pub(crate) fn begin(mut stream: TcpStream) -> TcpStream {
    let window = 0x0fff_ffff_u32.to_be_bytes();
    let settings = [&[0, 4][..], &window].concat();
    let opening = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &settings),
        frame(WINDOW_UPDATE, 0, 0, &window),
    ];
    stream.write_all(&opening.concat()).expect("the server reads");
    stream
}

/// Reads the next frame: kind, flags, stream, payload. `None` if the connection is closed.
pub(crate) fn next(stream: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("few")
}

/// Sends a body as far as the server's windows allow and reads the reply's: `None` if the stream or connection broke.
pub(crate) fn exchange(stream: &mut TcpStream, id: u32, mut body: &[u8]) -> Option<String> {
    const PIECE: usize = 16_384;
    const WINDOW: i64 = 65_535;
    let mut window = WINDOW;
    let mut of_stream = WINDOW;
    let mut answer = Vec::new();
    let mut done = body.is_empty();
    loop {
        while !done && window.min(of_stream) >= length(PIECE) {
            let (piece, rest) = body.split_at(body.len().min(PIECE));
            body = rest;
            done = body.is_empty();
            stream.write_all(&frame(DATA, u8::from(done), id, piece)).ok()?;
            window -= length(piece.len());
            of_stream -= length(piece.len());
        }
        let (kind, flags, of, payload) = next(stream)?;
        let number = |at: usize| {
            payload.get(at..at + 4).map(|four| i64::from(u32::from_be_bytes(four.try_into().expect("four"))))
        };
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks(6).filter(|setting| setting[..2] == [0, 4]) {
                    of_stream += i64::from(u32::from_be_bytes(setting[2..6].try_into().expect("four"))) - WINDOW;
                }
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).ok()?;
            }
            WINDOW_UPDATE if of == 0 => window += number(0)?,
            WINDOW_UPDATE if of == id => of_stream += number(0)?,
            DATA if of == id => {
                answer.extend_from_slice(&payload);
                if flags & END_STREAM != 0 {
                    return String::from_utf8(answer).ok();
                }
            }
            HEADERS if of == id && flags & END_STREAM != 0 => return Some(String::new()),
            GOAWAY => return None,
            RST_STREAM if of == id => return None,
            _ => {}
        }
    }
}
