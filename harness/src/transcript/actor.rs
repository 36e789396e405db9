//! Derives the originator of requests and changes from user agents.

use std::fmt;

use plumbline_apiserver::record::{Origin, TranscriptEntry};

/// The originator of a request or change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The disruption controller.
    Disruption,
    /// The pod garbage collector.
    PodGc,
    /// The taint eviction controller.
    TaintEviction,
    /// The TTL controller.
    Ttl,
    /// The subject's shared informers.
    Informers,
    /// The fixture's steps, in the role of a user, an evictor or a kubelet.
    User,
    /// The server's built-in kubelet.
    Kubelet,
    /// The server itself: end of a grace period, garbage collection.
    Server,
    /// The harness: faults, crashes, restarts.
    Harness,
    /// Any other client, by the last segment of its user agent.
    Other(String),
}

/// User agent of the requests that a fixture's steps make.
pub const USER_AGENT_OF_STEPS: &str = concat!("plumbline/", env!("CARGO_PKG_VERSION"), " user");

impl Actor {
    /// Derives the actor from the last segment of `user_agent` (segments end at `/`, `:` and spaces), where
    /// kube-controller-manager and our controllers put the controller's name.
    #[must_use]
    pub fn from_user_agent(user_agent: &str) -> Self {
        let last = user_agent.trim_end().rsplit(['/', ':', ' ']).next().unwrap_or_default();
        match last {
            "disruption-controller" => Self::Disruption,
            "pod-garbage-collector" | "pod-garbage-collector-controller" => Self::PodGc,
            "taint-eviction-controller" | "node-controller" => Self::TaintEviction,
            "ttl-controller" => Self::Ttl,
            "shared-informers" => Self::Informers,
            "user" => Self::User,
            "kubelet" => Self::Kubelet,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the short name used in transcripts and fixtures.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Disruption => "disruption",
            Self::PodGc => "podgc",
            Self::TaintEviction => "taint-eviction",
            Self::Ttl => "ttl",
            Self::Informers => "informers",
            Self::User => "user",
            Self::Kubelet => "kubelet",
            Self::Server => "server",
            Self::Harness => "harness",
            Self::Other(name) => name,
        }
    }

    /// Returns true for actors of the subject under test: its controllers and their informers.
    #[must_use]
    pub fn is_subject(&self) -> bool {
        matches!(self, Self::Disruption | Self::PodGc | Self::TaintEviction | Self::Ttl | Self::Informers)
    }
}

/// An entry or origin that belongs to an [`Actor`].
pub trait Attributed {
    /// Returns the actor.
    fn actor(&self) -> Actor;
}

impl Attributed for Origin {
    fn actor(&self) -> Actor {
        match self {
            Self::Client { user_agent, .. } => Actor::from_user_agent(user_agent),
            Self::Server => Actor::Server,
            Self::Test => Actor::Harness,
        }
    }
}

impl Attributed for TranscriptEntry {
    fn actor(&self) -> Actor {
        self.origin.actor()
    }
}

impl From<Actor> for Origin {
    /// Creates an origin whose [`Attributed::actor`] is `actor`.
    fn from(actor: Actor) -> Self {
        let user_agent = match &actor {
            Actor::Server => return Self::Server,
            Actor::Harness => return Self::Test,
            Actor::Disruption => "disruption-controller",
            Actor::PodGc => "pod-garbage-collector",
            Actor::TaintEviction => "taint-eviction-controller",
            Actor::Ttl => "ttl-controller",
            Actor::Informers => "shared-informers",
            Actor::User => USER_AGENT_OF_STEPS,
            Actor::Kubelet => "kubelet",
            Actor::Other(name) => name,
        };
        Self::client(user_agent, "")
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ours("plumbline-controllers/0.1.0 (linux/amd64) kubernetes/0.29/disruption-controller", Actor::Disruption)]
    #[case::upstream("kube-controller-manager/v1.36.0 (linux/amd64) kubernetes/abc/ttl-controller", Actor::Ttl)]
    #[case::service_account(
        "x/y (z) kubernetes/abc/system:serviceaccount:kube-system:pod-garbage-collector",
        Actor::PodGc
    )]
    #[case::steps(USER_AGENT_OF_STEPS, Actor::User)]
    #[case::empty("", Actor::Other(String::new()))]
    fn actor_is_the_last_segment(#[case] user_agent: &str, #[case] actor: Actor) {
        assert_eq!(Actor::from_user_agent(user_agent), actor);
    }
}
