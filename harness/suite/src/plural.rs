//! Counts with their nouns.

/// Returns a count with its noun: `1 run`, `2 runs`, `0 histories`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let texts = [(1, "run"), (0, "run"), (1, "history"), (2, "history")].map(|(count, noun)| counted(count, noun));
        assert_eq!(texts, ["1 run", "0 runs", "1 history", "2 histories"]);
    }
}
