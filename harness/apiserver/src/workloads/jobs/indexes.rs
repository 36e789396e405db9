//! Sets of completion indexes, as a job's status shows them: `0-3,5,7,8`. Pure.
//! See `pkg/controller/job/indexed_job_utils.go`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Reads the text of a status. Parts that are no indexes, and indexes from `completions` on, are left out.
pub(super) fn parse(text: &str, completions: i64) -> BTreeSet<i64> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?.min(completions - 1))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Returns the text of a status.
pub(super) fn text(indexes: &BTreeSet<i64>) -> String {
    let mut out = String::new();
    let mut rest = indexes.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if_eq(&(last + 1)) {
            last = next;
        }
        if !out.is_empty() {
            out.push(',');
        }
        // Two neighbours are not a range.
        let _ = match last - first {
            0 => write!(out, "{first}"),
            1 => write!(out, "{first},{last}"),
            _ => write!(out, "{first}-{last}"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none("", &[])]
    #[case::one("3", &[3])]
    #[case::neighbours("3,4", &[3, 4])]
    #[case::ranges("0-2,5,7,8", &[0, 1, 2, 5, 7, 8])]
    fn texts(#[case] written: &str, #[case] indexes: &[i64]) {
        let indexes: BTreeSet<i64> = indexes.iter().copied().collect();
        assert_eq!(text(&indexes), written);
        assert_eq!(parse(written, 10), indexes);
    }

    #[test]
    fn indexes_beyond_the_completions_do_not_count() {
        assert_eq!(parse("1-5,8,x", 3), BTreeSet::from([1, 2]));
    }
}
