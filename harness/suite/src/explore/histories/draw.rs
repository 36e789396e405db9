//! Random choices that depend on a seed alone. Pure.

/// A source of random choices; equal seeds give equal sequences. It is `SplitMix64`, which never changes, so a token
/// names the same history in every version that has the same generator.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Creates a source from the parts of a seed.
    #[must_use]
    pub fn new(parts: &[u64]) -> Self {
        let mut draw = Self(0x0077_6f72_6c64);
        for part in parts {
            draw.0 ^= *part;
            draw.0 = draw.number();
        }
        draw
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, or 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or_default()
    }

    /// Returns true in this many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or_default();
        items.get(index)
    }
}
