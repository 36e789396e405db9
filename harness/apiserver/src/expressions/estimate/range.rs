//! Ranges of sizes and costs: `SizeEstimate` and `CostEstimate` of cel-go's `checker/cost.go`. PURE.

/// Least and most, of a size or of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Range {
    pub(super) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    pub(super) const fn exactly(value: u64) -> Self {
        Self { least: value, most: value }
    }

    /// Returns the range of a count that fits into memory.
    pub(super) fn count(value: usize) -> Self {
        Self::exactly(u64::try_from(value).unwrap_or(u64::MAX))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    pub(super) fn scaled(self, factor: f64) -> Self {
        // A product that is too large becomes the largest integer.
        #[expect(clippy::cast_sign_loss, reason = "sizes and factors are not negative")]
        let scale = |value: u64| (value as f64 * factor).ceil() as u64;
        Self { least: scale(self.least), most: scale(self.most) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// The sizes of a list's items, or of a map's keys and values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EntrySizes {
    pub(super) is_list: bool,
    pub(super) key: Range,
    pub(super) value: Range,
}

impl EntrySizes {
    pub(super) fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}
