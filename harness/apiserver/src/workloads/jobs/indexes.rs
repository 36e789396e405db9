//! Sets of completion indexes, as a job's status shows them: `0-3,5,7,8`. Pure.
//! See `pkg/controller/job/indexed_job_utils.go`.

/// A set of indexes: intervals with their first and last ones, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl FromIterator<(i64, i64)> for Indexes {
    fn from_iter<I: IntoIterator<Item = (i64, i64)>>(intervals: I) -> Self {
        let mut intervals: Vec<(i64, i64)> = intervals.into_iter().filter(|(first, last)| first <= last).collect();
        intervals.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (first, last) in intervals {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}

impl Indexes {
    /// Reads the text of a status. Parts that are no indexes, and indexes from `completions` on, are left out.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.parse::<i64>().ok()?, last.parse::<i64>().ok()?.min(completions - 1)))
        };
        text.split(',').filter_map(range).collect()
    }

    /// Returns the set with more indexes.
    pub(super) fn with(self, more: impl IntoIterator<Item = i64>) -> Self {
        self.0.into_iter().chain(more.into_iter().map(|index| (index, index))).collect()
    }

    /// Returns the indexes of both sets.
    pub(super) fn or(self, other: Self) -> Self {
        self.0.into_iter().chain(other.0).collect()
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&index))
    }

    /// Returns the number of indexes.
    pub(super) fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Returns the number of indexes that are in both sets.
    pub(super) fn count_in(&self, other: &Self) -> i64 {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |other| (one, other)));
        pairs.map(|(one, other)| (one.1.min(other.1) - one.0.max(other.0) + 1).max(0)).sum()
    }

    /// Returns the indexes up to `completions` that are not in the set.
    pub(super) fn missing(&self, completions: i64) -> impl Iterator<Item = i64> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|(_, last)| last + 1));
        let ends = self.0.iter().map(|(first, _)| *first).chain([completions]);
        starts.zip(ends).flat_map(move |(start, end)| start..end.min(completions))
    }

    /// Returns the text of a status.
    pub(super) fn text(&self) -> String {
        let part = |(first, last): &(i64, i64)| match last - first {
            0 => first.to_string(),
            // Two neighbours are not a range.
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        };
        self.0.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none("", &[])]
    #[case::one("3", &[3])]
    #[case::neighbours("3,4", &[4, 3])]
    #[case::ranges("0-2,5,7,8", &[0, 8, 1, 2, 5, 7])]
    fn texts(#[case] written: &str, #[case] indexes: &[i64]) {
        let indexes = Indexes::default().with(indexes.iter().copied());
        assert_eq!(indexes.text(), written);
        assert_eq!(Indexes::parse(written, 10), indexes);
        let (own, missing): (Vec<i64>, Vec<i64>) = (0..10).partition(|index| indexes.contains(*index));
        assert_eq!(indexes.missing(10).collect::<Vec<_>>(), missing);
        let count = i64::try_from(own.len()).expect("a few");
        assert_eq!([indexes.count(), indexes.count_in(&Indexes::parse("0-9", 10))], [count; 2]);
    }

    #[test]
    fn indexes_beyond_the_completions_do_not_count() {
        assert_eq!(Indexes::parse("1-5,8,x", 3), Indexes::default().with([1, 2]));
    }

    /// `orderedIntervals` upstream: a set takes no more room than its text.
    #[test]
    fn the_intervals_of_a_large_job_are_not_expanded() {
        let most = Indexes::parse("0-1999999997", 2_000_000_000);
        assert_eq!(most.count_in(&Indexes::parse("5,7-1999999999", 2_000_000_000)), 1_999_999_992);
        assert_eq!(most.clone().with([1_999_999_999]).missing(2_000_000_000).collect::<Vec<_>>(), [1_999_999_998]);
        assert_eq!(most.or(Indexes::parse("1999999998", 2_000_000_000)).text(), "0-1999999998");
    }
}
