//! Lists of many objects: complete lists, pages, and selections.

use std::time::Duration;

use plumbline::time::Clock;

use super::error::BenchError;
use super::http::Connection;
use super::load::text_member;

/// Bytes kept from the beginning of a list; they include its metadata.
const BEGINNING: usize = 4096;
/// Beginning of each pod in a typed list.
const ITEM: &[u8] = br#"{"metadata":{"name":""#;

/// A list that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListStats {
    /// Time from the first request to the last byte.
    pub(super) took: Duration,
    /// Bytes of the bodies.
    pub(super) bytes: u64,
    /// Number of items, if they were counted.
    pub(super) items: u64,
    /// Number of requests.
    pub(super) pages: u64,
}

/// Reads `path` with `query` completely, in pages of `limit` (0: one response). Counting items costs time, so do not
/// count while measuring.
pub(super) async fn list(
    clock: &Clock,
    connection: &mut Connection,
    path: &str,
    query: &str,
    limit: usize,
    counted: bool,
) -> Result<ListStats, BenchError> {
    let mut listed = ListStats::default();
    let mut next = String::new();
    let start = clock.elapsed();
    loop {
        // A limit of 0 and an empty token have no effect.
        let url = format!("{path}?{query}&limit={limit}&continue={next}");
        let mut beginning = Vec::with_capacity(BEGINNING);
        let mut items = ItemCounter::default();
        let status = connection
            .stream("GET", &url, &[], |piece| {
                listed.bytes += piece.len() as u64;
                let room = BEGINNING - beginning.len();
                beginning.extend_from_slice(&piece[..piece.len().min(room)]);
                if counted {
                    items.count(piece);
                }
                true
            })
            .await?;
        if status != 200 {
            let body = String::from_utf8_lossy(&beginning).into_owned();
            return Err(BenchError::Refused { request: format!("GET {url}"), status, body });
        }
        listed.pages += 1;
        listed.items += items.found;
        let metadata = beginning.split(|byte| *byte == b'[').next().unwrap_or_default();
        next = text_member(metadata, "continue").unwrap_or_default().replace('=', "%3D");
        if next.is_empty() {
            listed.took = clock.elapsed().saturating_sub(start);
            return Ok(listed);
        }
    }
}

/// Counts items in a text that arrives in chunks.
#[derive(Default)]
struct ItemCounter {
    found: u64,
    carried: Vec<u8>,
}

impl ItemCounter {
    fn count(&mut self, piece: &[u8]) {
        self.carried.extend_from_slice(piece);
        let mut from = 0;
        while let Some(at) = self.carried[from..].iter().position(|byte| *byte == ITEM[0]) {
            let rest = &self.carried[from + at..];
            if rest.len() < ITEM.len() {
                from += at;
                break;
            }
            let hit = rest.starts_with(ITEM);
            self.found += u64::from(hit);
            from += at + if hit { ITEM.len() } else { 1 };
        }
        let keep = self.carried.len().saturating_sub(ITEM.len()).max(from);
        self.carried.drain(..keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_across_pieces() {
        let text = br#"{"items":[{"metadata":{"name":"a","x":{}}},{"metadata":{"name":"b"}},{"metadata":{"uid":"c"}},{"metadata":{"name":"d"#;
        for size in 1..text.len() {
            let mut items = ItemCounter::default();
            text.chunks(size).for_each(|piece| items.count(piece));
            assert_eq!(items.found, 3, "in pieces of {size}");
        }
    }
}
