//! Compresses timelines into blocks that fit into the page. PURE.
//!
//! A block holds the timelines of fixtures that are next to each other, such as the rows of a matrix, because they
//! compress well together. It is deflated (zlib) and in base64; the script inflates it when one of its timelines is
//! opened.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::json;

use super::model::FORMAT;

/// Size of a block before compression, in bytes. A block with one larger timeline exceeds it.
const BLOCK: usize = 400_000;

/// Size of all blocks of a page, in bytes.
pub(super) const ALL_BLOCKS: usize = 4_300_000;

/// A timeline as JSON text.
#[derive(Debug)]
pub(super) struct TimelineText {
    /// The fixture's id.
    pub(super) id: String,
    /// The fixture's file.
    pub(super) file: String,
    /// True if it is packed before those that passed.
    pub(super) is_important: bool,
    /// The timeline as JSON.
    pub(super) json: String,
}

/// The blocks of a page.
#[derive(Debug, Default)]
pub(super) struct TimelineArchive {
    /// The blocks in base64.
    pub(super) blocks: Vec<String>,
    /// The block of each fixture.
    pub(super) index: BTreeMap<String, usize>,
}

/// Packs timelines until `limit` bytes are full, important ones first. `source` returns the text of a fixture's file.
pub(super) fn pack(mut texts: Vec<TimelineText>, limit: usize, source: impl Fn(&str) -> String) -> TimelineArchive {
    texts.sort_by(|a, b| (!a.is_important, &a.id).cmp(&(!b.is_important, &b.id)));
    let mut packed = TimelineArchive::default();
    let mut rest = &texts[..];
    let mut size = 0;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|text| {
            bytes += text.json.len();
            bytes <= BLOCK
        });
        let (group, others) = rest.split_at(fits.count().max(1));
        rest = others;
        let block = compress(group, &source);
        if size + block.len() > limit {
            // Smaller blocks may still fit.
            continue;
        }
        size += block.len();
        packed.index.extend(group.iter().map(|text| (text.id.clone(), packed.blocks.len())));
        packed.blocks.push(block);
    }
    packed
}

fn compress(group: &[TimelineText], source: &impl Fn(&str) -> String) -> String {
    let sources: BTreeMap<&str, String> = group.iter().map(|text| (text.file.as_str(), source(&text.file))).collect();
    let timelines: Vec<&str> = group.iter().map(|text| text.json.as_str()).collect();
    // The timelines are JSON already.
    let timelines = timelines.join(",");
    let json = format!("{{\"format\":{},\"sources\":{},\"timelines\":[{timelines}]}}", json!(FORMAT), json!(sources));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(8));
    // Memory can be written.
    let _ = encoder.write_all(json.as_bytes());
    STANDARD.encode(encoder.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str, size: usize, is_important: bool) -> TimelineText {
        // Letters that hardly compress.
        let mut random = fastrand::Rng::with_seed(size as u64);
        let noise: String = (0..size).map(|_| random.char('a'..='z')).collect();
        let json = format!("\"{noise}\"");
        TimelineText { id: id.to_owned(), file: format!("{id}.yaml"), is_important, json }
    }

    #[test]
    fn failures_go_first_and_the_limit_holds() {
        let texts = vec![text("a", 300_000, false), text("b", 300_000, false), text("c", 300_000, true)];
        let packed = pack(texts, 600_000, |file| format!("promise: {file}"));
        assert_eq!(packed.index.keys().collect::<Vec<_>>(), ["a", "c"], "b does not fit");
        assert_eq!(packed.index["c"], 0, "failed fixtures are packed first");
        assert!(packed.blocks.iter().map(String::len).sum::<usize>() < 600_000);
    }

    #[test]
    fn small_timelines_share_a_block() {
        let packed = pack((0..9).map(|n| text(&format!("f{n}"), 1000, false)).collect(), ALL_BLOCKS, |_| String::new());
        assert_eq!((packed.blocks.len(), packed.index.len()), (1, 9));
    }
}
