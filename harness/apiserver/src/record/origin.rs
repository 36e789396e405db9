//! The originator of a request or change.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The originator of a request or change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Origin {
    /// A client.
    Client {
        /// Its whole `User-Agent` header; empty if it sent none.
        user_agent: Arc<str>,
        /// Name of the user it is authenticated as.
        user: Arc<str>,
        /// The party that the transport attributes its requests to, if it does; see
        /// [`ApiRequest::attribution`](crate::request::ApiRequest::attribution).
        attribution: Option<Arc<str>>,
    },
    /// The server itself, such as at the end of a grace period.
    Server,
    /// The program that embeds the server: its notes.
    Embedder,
}

impl Origin {
    /// A client with this user agent and user name.
    #[must_use]
    pub fn client(user_agent: &str, user: &str) -> Self {
        Self::Client { user_agent: user_agent.into(), user: user.into(), attribution: None }
    }

    /// Adds the party that the transport names. The server and its embedder stay what they are.
    #[must_use]
    pub fn attributed(self, party: Option<Arc<str>>) -> Self {
        match self {
            Self::Client { user_agent, user, .. } => Self::Client { user_agent, user, attribution: party },
            other => other,
        }
    }

    /// The party that the transport names.
    #[must_use]
    pub fn attribution(&self) -> Option<&str> {
        match self {
            Self::Client { attribution, .. } => attribution.as_deref(),
            Self::Server | Self::Embedder => None,
        }
    }

    /// The whole user agent of a client; `None` for the server and its embedder.
    #[must_use]
    pub fn user_agent(&self) -> Option<&str> {
        match self {
            Self::Client { user_agent, .. } => Some(user_agent),
            Self::Server | Self::Embedder => None,
        }
    }

    /// A short name: of a client, the last segment of its user agent (segments end at `/`, `:` and blanks), or the
    /// product at its start if that segment is a version, a commit or a comment; `server`; `embedder`.
    #[must_use]
    pub fn short_name(&self) -> &str {
        match self {
            Self::Client { user_agent, .. } => Self::short_name_of(user_agent),
            Self::Server => "server",
            Self::Embedder => "embedder",
        }
    }

    /// The [`Origin::short_name`] of a client with this user agent.
    #[must_use]
    pub fn short_name_of(user_agent: &str) -> &str {
        let user_agent = user_agent.trim();
        let last = user_agent.rsplit(['/', ':', ' ']).next().unwrap_or_default();
        let digits = last.strip_prefix('v').unwrap_or(last);
        let is_commit = last.len() >= 7 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_commit || last.ends_with(')') || digits.starts_with(|first: char| first.is_ascii_digit() || first == '$')
        {
            return user_agent.split(['/', ' ']).next().unwrap_or_default();
        }
        last
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
    #[case::kubectl("kubectl/v1.37.1 (linux/amd64) kubernetes/4cb5f07", "kubectl")]
    #[case::unversioned("kubectl/v0.0.0 (linux/amd64) kubernetes/$Format", "kubectl")]
    #[case::comment("kubectl/v1.37.1 (linux/amd64)", "kubectl")]
    #[case::python("OpenAPI-Generator/37.0.2/python", "python")]
    #[case::version("curl/8.5.0", "curl")]
    #[case::empty("", "")]
    fn the_short_name_is_the_last_segment(#[case] user_agent: &str, #[case] name: &str) {
        assert_eq!(Origin::client(user_agent, "").short_name(), name);
    }
}
