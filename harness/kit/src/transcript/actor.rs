//! The originators of requests and changes.
//!
//! A request that arrives with the subject's credentials is the subject's: the transport attributes it
//! ([`Agents::attribute`](super::Agents::attribute)), and its user agent only selects the controller. All other
//! requests are the harness's own, and their agents can be relied on.

use std::fmt;

use plumbline_apiserver::record::{Origin, TranscriptEntry};

use crate::fixture::Controller;

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
    /// A client of the subject that is none of the controllers under test, by its short name.
    Bystander(String),
    /// A controller that a test runs in a [world](crate::world), by its name there.
    Controller(String),
    /// The fixture's steps, in the role of a user, an evictor or a kubelet.
    User,
    /// The server's built-in kubelet.
    Kubelet,
    /// The server itself: end of a grace period, garbage collection.
    Server,
    /// The harness: faults, crashes, restarts.
    Harness,
    /// Any other client, by the short name of its user agent.
    Other(String),
}

/// User agent of the requests that a fixture's steps make.
pub const USER_AGENT_OF_STEPS: &str = concat!("plumbline/", env!("CARGO_PKG_VERSION"), " user");

impl Actor {
    /// Derives the actor from the short name of `user_agent` ([`Origin::short_name`]), where kube-controller-manager
    /// and our controllers put the controller's name.
    #[must_use]
    pub fn from_user_agent(user_agent: &str) -> Self {
        match Origin::short_name_of(user_agent) {
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
            Self::Controller(name) | Self::Bystander(name) | Self::Other(name) => name,
        }
    }

    /// Returns true for actors of the subject under test: its controllers, their informers, and its other clients.
    #[must_use]
    pub fn is_subject(&self) -> bool {
        self.controller().is_some() || matches!(self, Self::Informers | Self::Controller(_) | Self::Bystander(_))
    }

    /// Returns the controller, if it is one.
    #[must_use]
    pub const fn controller(&self) -> Option<Controller> {
        match self {
            Self::Disruption => Some(Controller::Disruption),
            Self::PodGc => Some(Controller::PodGc),
            Self::TaintEviction => Some(Controller::TaintEviction),
            Self::Ttl => Some(Controller::Ttl),
            _ => None,
        }
    }

    /// Returns the actor that an attribution names: `subject/ttl`, `subject/informers`, `controller/NAME`,
    /// `bystander/NAME`, or `other/NAME` for a companion.
    fn from_attribution(text: &str) -> Option<Self> {
        Some(match text.split_once('/')? {
            ("controller", name) => Self::Controller(name.to_owned()),
            ("bystander", name) => Self::Bystander(name.to_owned()),
            ("other", name) => Self::Other(name.to_owned()),
            ("subject", "informers") => Self::Informers,
            ("subject", name) => Controller::parse(name)?.into(),
            _ => return None,
        })
    }

    /// Returns the text that [`Origin::attribution`] has for an actor of the subject.
    pub fn attribution(&self) -> String {
        let kind = match self {
            Self::Controller(_) => "controller",
            Self::Bystander(_) => "bystander",
            Self::Other(_) => "other",
            _ => "subject",
        };
        format!("{kind}/{}", self.name())
    }
}

impl From<Controller> for Actor {
    fn from(controller: Controller) -> Self {
        match controller {
            Controller::Disruption => Self::Disruption,
            Controller::PodGc => Self::PodGc,
            Controller::TaintEviction => Self::TaintEviction,
            Controller::Ttl => Self::Ttl,
        }
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
            Self::Client { user_agent, .. } => self
                .attribution()
                .and_then(Actor::from_attribution)
                .unwrap_or_else(|| Actor::from_user_agent(user_agent)),
            Self::Server => Actor::Server,
            Self::Embedder => Actor::Harness,
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
            Actor::Harness => return Self::Embedder,
            Actor::Disruption => "disruption-controller",
            Actor::PodGc => "pod-garbage-collector",
            Actor::TaintEviction => "taint-eviction-controller",
            Actor::Ttl => "ttl-controller",
            Actor::Informers => "shared-informers",
            Actor::User => USER_AGENT_OF_STEPS,
            Actor::Kubelet => "kubelet",
            Actor::Controller(name) | Actor::Bystander(name) | Actor::Other(name) => name,
        };
        let origin = Self::client(user_agent, "");
        if actor.is_subject() { origin.attributed(Some(actor.attribution().into())) } else { origin }
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

    #[test]
    fn a_controller_of_a_world_belongs_to_the_subject() {
        let actor = Actor::Controller("team/cachefleet".to_owned());
        assert_eq!(Origin::from(actor.clone()).actor(), actor);
        assert!(actor.is_subject() && actor.controller().is_none());
    }
}
