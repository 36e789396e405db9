//! Patterns in which `*` is any text. PURE.

/// Returns true if a text matches a pattern.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("web:1", "web:1", true)]
    #[case("web:1", "web:12", false)]
    #[case("*:broken", "a/web:broken", true)]
    #[case("web:*", "web:2", true)]
    #[case("*:4*4", "web:404", true)]
    #[case("*:4*4", "web:403", false)]
    #[case("*a*b*", "xbxax", false)]
    #[case("*", "", true)]
    #[case("a*b*c", "a b b c", true)]
    #[case("a*a", "a", false)]
    #[case("a", "ab", false)]
    fn patterns(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(glob(pattern, text), expected);
    }
}
