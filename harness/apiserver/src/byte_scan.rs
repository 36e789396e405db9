//! Searches chunks of text for the special bytes of JSON strings; see Go's `encoding/json` (`encode.go`, `scanner.go`).
//!
//! Each byte becomes a number that is zero for special ones. Minima of such numbers compile to vector instructions;
//! comparisons joined by `|` do not.

/// Returns the least of the numbers that `distance` returns for the bytes of the chunk.
#[expect(clippy::inline_always, reason = "builds without optimization, too, spend their time here")]
#[inline(always)]
pub(crate) fn least<const N: usize>(chunk: &[u8; N], distance: impl Fn(u8) -> u8) -> u8 {
    let mut least = u8::MAX;
    let mut at = 0;
    while at < N {
        least = min(least, distance(chunk[at]));
        at += 1;
    }
    least
}

/// Returns the smaller of two bytes; unlike `Ord::min` it is inlined in builds without optimization, too.
#[expect(clippy::inline_always, reason = "builds without optimization, too, spend their time here")]
#[inline(always)]
pub(crate) const fn min(one: u8, other: u8) -> u8 {
    if one < other { one } else { other }
}
