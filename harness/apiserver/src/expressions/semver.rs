//! Semantic versions. Follows `semverlib.go` in `staging/src/k8s.io/apiserver/pkg/cel/library` of Kubernetes 1.36 and
//! the messages of `github.com/blang/semver`, which is why no crate parses them. PURE.

use std::cmp::Ordering;

/// Reasons why a text is not a version, in the words of `github.com/blang/semver`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VersionError {
    #[error("short version cannot contain PreRelease/Build meta data")]
    ShortWithParts,
    #[error("Version string empty")]
    Empty,
    #[error("No Major.Minor.Patch elements found")]
    MissingNumbers,
    #[error("Invalid character(s) found in {} number {text:?}", .name.to_lowercase())]
    Number { name: &'static str, text: String },
    #[error("{name} number must not contain leading zeroes {text:?}")]
    LeadingZeroes { name: &'static str, text: String },
    #[error("strconv.ParseUint: parsing {0:?}: value out of range")]
    Range(String),
    #[error("Prerelease is empty")]
    EmptyPrerelease,
    #[error("Invalid character(s) found in prerelease {0:?}")]
    Prerelease(String),
    #[error("Numeric PreRelease version must not contain leading zeroes {0:?}")]
    PrereleaseZeroes(String),
    #[error("Build meta data is empty")]
    EmptyBuild,
    #[error("Invalid character(s) found in build meta data {0:?}")]
    Build(String),
}

/// A version; build metadata does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Major, minor and patch.
    pub(super) numbers: [u64; 3],
    before: Vec<Identifier>,
}

/// A part of a pre-release. Numbers are less than texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Version {
    /// Parses a version. With `normalize`, a leading `v`, leading zeroes and missing numbers are accepted.
    pub(super) fn parse(text: &str, normalize: bool) -> Result<Self, VersionError> {
        if normalize { parse(&normalized(text)?) } else { parse(text) }
    }

    /// Compares two versions.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        by_numbers.then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.before.cmp(&other.before),
        })
    }
}

fn normalized(text: &str) -> Result<String, VersionError> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let without_zeroes = |part: &str| {
        let short = part.trim_start_matches('0');
        let digit = short.starts_with(|first: char| first.is_ascii_digit());
        if part.len() < 2 || digit && short.len() == part.len() {
            part.to_owned()
        } else if digit {
            short.to_owned()
        } else {
            format!("0{short}")
        }
    };
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeroes).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err(VersionError::ShortWithParts);
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn parse(text: &str) -> Result<Version, VersionError> {
    if text.is_empty() {
        return Err(VersionError::Empty);
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts.as_slice() else {
        return Err(VersionError::MissingNumbers);
    };
    let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, before) = rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
    let numbers = [number(major, "Major")?, number(minor, "Minor")?, number(patch, "Patch")?];
    let before = before.map_or(Ok(Vec::new()), |before| before.split('.').map(identifier).collect())?;
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err(VersionError::EmptyBuild);
        }
        if !is_identifier(part) {
            return Err(VersionError::Build(part.to_owned()));
        }
    }
    Ok(Version { numbers, before })
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn number(text: &str, name: &'static str) -> Result<u64, VersionError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::Number { name, text: text.to_owned() });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZeroes { name, text: text.to_owned() });
    }
    text.parse().map_err(|_| VersionError::Range(text.to_owned()))
}

fn identifier(text: &str) -> Result<Identifier, VersionError> {
    if text.is_empty() {
        return Err(VersionError::EmptyPrerelease);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let malformed = || VersionError::Prerelease(text.to_owned());
        return if is_identifier(text) { Ok(Identifier::Text(text.to_owned())) } else { Err(malformed()) };
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::PrereleaseZeroes(text.to_owned()));
    }
    text.parse().map(Identifier::Number).map_err(|_| VersionError::Range(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.2", "No Major.Minor.Patch elements found")]
    #[case("", "Version string empty")]
    #[case("01.2.3", "Major number must not contain leading zeroes \"01\"")]
    #[case("1.x.3", "Invalid character(s) found in minor number \"x\"")]
    #[case("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\"")]
    #[case("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\"")]
    #[case("1.2.3+", "Build meta data is empty")]
    fn malformed_versions(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Version::parse(text, false).unwrap_err().to_string(), expected);
    }

    #[rstest]
    #[case("v1", [1, 0, 0])]
    #[case("v01.02.003", [1, 2, 3])]
    #[case("1.0", [1, 0, 0])]
    #[case("0.00.0-rc", [0, 0, 0])]
    fn normalized_versions(#[case] text: &str, #[case] expected: [u64; 3]) {
        assert_eq!(Version::parse(text, true).unwrap().numbers, expected);
    }

    #[test]
    fn versions_are_in_order() {
        let texts =
            ["1.0.0-1", "1.0.0-2", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.1", "1.0.0", "1.0.1"];
        let versions: Vec<Version> = texts.iter().map(|text| Version::parse(text, false).unwrap()).collect();
        assert!(versions.windows(2).all(|pair| pair[0].compare(&pair[1]).is_lt()));
        let build = Version::parse("1.0.1+b", false).unwrap();
        assert!(build.compare(versions.last().unwrap()).is_eq());
    }
}
