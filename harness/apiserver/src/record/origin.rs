//! The originator of a request or change.

use std::fmt;
use std::sync::Arc;

/// The originator of a request or change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A client.
    Client {
        /// Its whole `User-Agent` header; empty if it sent none.
        user_agent: Arc<str>,
        /// Name of the user it is authenticated as.
        user: Arc<str>,
    },
    /// The server itself, such as at the end of a grace period.
    Server,
    /// The program that drives the server: notes, faults, crashes.
    Test,
}

impl Origin {
    /// A client with this user agent and user name.
    #[must_use]
    pub fn client(user_agent: &str, user: &str) -> Self {
        Self::Client { user_agent: user_agent.into(), user: user.into() }
    }

    /// The whole user agent of a client; `None` for the server and the test.
    #[must_use]
    pub fn user_agent(&self) -> Option<&str> {
        match self {
            Self::Client { user_agent, .. } => Some(user_agent),
            Self::Server | Self::Test => None,
        }
    }

    /// A short name: the last segment of a client's user agent (segments end at `/`, `:` and blanks), `server`, or
    /// `harness` for the test.
    #[must_use]
    pub fn short_name(&self) -> &str {
        match self {
            Self::Client { user_agent, .. } => user_agent.trim_end().rsplit(['/', ':', ' ']).next().unwrap_or_default(),
            Self::Server => "server",
            Self::Test => "harness",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.short_name())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::controller("kube-controller-manager/v1.36.0 (linux/amd64) kubernetes/abc/ttl-controller", "ttl-controller")]
    #[case::service_account("x/y (z) kubernetes/abc/system:serviceaccount:kube-system:a", "a")]
    #[case::empty("", "")]
    fn the_short_name_is_the_last_segment(#[case] user_agent: &str, #[case] name: &str) {
        assert_eq!(Origin::client(user_agent, "").short_name(), name);
    }
}
