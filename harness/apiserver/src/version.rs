//! [`KubernetesVersion`]: the release of Kubernetes that a server behaves as. PURE.
//! See `staging/src/k8s.io/component-base/version/base.go`.

use std::fmt;
use std::str::FromStr;

/// A minor release of Kubernetes that the server can behave as.
///
/// It decides what the server reports about itself (`/version`, the OpenAPI documents, nodes of simulated kubelets) and
/// how it replies where the releases differ. The served types are those of the first release in every case.
///
/// ```
/// use plumbline_apiserver::KubernetesVersion;
///
/// let version: KubernetesVersion = "1.37".parse().expect("a known release");
/// assert_eq!(version.git_version(), "v1.37.0");
/// assert!(version > KubernetesVersion::default());
/// assert_eq!(
///     "1.12".parse::<KubernetesVersion>().unwrap_err().to_string(),
///     "Kubernetes 1.12 cannot be served; available: 1.36, 1.37"
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubernetesVersion {
    /// Kubernetes 1.36.
    #[default]
    V1_36,
    /// Kubernetes 1.37.
    V1_37,
}

impl KubernetesVersion {
    /// All releases, in order.
    pub const ALL: [Self; 2] = [Self::V1_36, Self::V1_37];

    /// Returns the number of the minor release.
    pub const fn minor(self) -> u16 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// Returns the `gitVersion` that the server reports, such as `v1.36.0`.
    pub const fn git_version(self) -> &'static str {
        match self {
            Self::V1_36 => "v1.36.0",
            Self::V1_37 => "v1.37.0",
        }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

impl FromStr for KubernetesVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.into_iter().find(|version| version.to_string() == text).ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

/// A version to report, such as `v1.36.2` or `v1.36.2+k3s1`, of a release that can be served. A commit may follow after
/// a slash, for clients that compare it with theirs: `kubectl --match-server-version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedVersion {
    /// Its release.
    pub release: KubernetesVersion,
    /// The version with its `v`.
    pub text: String,
}

impl FromStr for ReportedVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let unknown = || UnknownVersion(text.to_owned());
        let (version, commit) = text.split_once('/').unwrap_or((text, "0"));
        if commit.is_empty() || !commit.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(unknown());
        }
        let (major_minor, patch) = version
            .strip_prefix('v')
            .and_then(|rest| rest.match_indices('.').nth(1).map(|(at, _)| rest.split_at(at)))
            .ok_or_else(unknown)?;
        let release = major_minor.parse().map_err(|_| unknown())?;
        let patch = &patch[1..];
        let end = patch.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(patch.len());
        let suffix = &patch[end..];
        let is_plain = suffix.bytes().all(|letter| letter.is_ascii_alphanumeric() || b".-+".contains(&letter));
        if end == 0 || !is_plain || !(suffix.is_empty() || suffix.starts_with(['-', '+'])) {
            return Err(unknown());
        }
        Ok(Self { release, text: text.to_owned() })
    }
}

/// The error of a release that the server does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Kubernetes {0} cannot be served; available: {known}", known = KubernetesVersion::ALL.map(|v| v.to_string()).join(", "))]
pub struct UnknownVersion(String);

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.36", Ok(KubernetesVersion::V1_36))]
    #[case("1.37", Ok(KubernetesVersion::V1_37))]
    #[case::patch_release("1.37.1", Err(()))]
    #[case::git_version("v1.37", Err(()))]
    #[case::later("1.38", Err(()))]
    #[case::empty("", Err(()))]
    fn releases_are_minor_versions(#[case] text: &str, #[case] expected: Result<KubernetesVersion, ()>) {
        assert_eq!(text.parse::<KubernetesVersion>().map_err(|_| ()), expected);
    }

    #[rstest]
    #[case("v1.36.2", Some(KubernetesVersion::V1_36))]
    #[case("v1.37.0-rc.1+k3s1", Some(KubernetesVersion::V1_37))]
    #[case::with_commit("v1.36.2/0a1f", Some(KubernetesVersion::V1_36))]
    #[case::without_commit("v1.36.2/", None)]
    #[case::no_commit("v1.36.2/main", None)]
    #[case::without_v("1.36.2", None)]
    #[case::without_patch("v1.36", None)]
    #[case::no_number("v1.36.x", None)]
    #[case::quotes("v1.36.2-\"", None)]
    #[case::later("v1.38.0", None)]
    fn reported_versions_are_of_a_release(#[case] text: &str, #[case] expected: Option<KubernetesVersion>) {
        assert_eq!(text.parse::<ReportedVersion>().ok().map(|version| version.release), expected);
    }

    #[test]
    fn each_release_is_written_as_it_is_read() {
        for version in KubernetesVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
            assert_eq!(version.git_version(), format!("v{version}.0"));
        }
        assert!(KubernetesVersion::ALL.is_sorted());
    }
}
