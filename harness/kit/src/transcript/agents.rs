//! Attributes the subject's requests to its controllers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::Method;
use plumbline_apiserver::request::{Attributor, Target};
use plumbline_apiserver::service::InProcessService;
use plumbline_apiserver::{ApiRequest, ApiServer};
use regex::Regex;

use super::{Actor, Origin};
use crate::fixture::Controller;

/// The resources that fixtures judge. A write to one of them by any client of the subject counts against it.
const JUDGED: [&str; 4] = ["pods", "nodes", "poddisruptionbudgets", "events"];

/// Returns true if fixtures judge writes to `resource`.
pub fn is_judged(resource: &str) -> bool {
    JUDGED.contains(&resource)
}

/// The text before a replica's number in the comment of its user agents.
pub const REPLICA: &str = "(replica-";

/// Returns the number of the replica that sent a request with this user agent.
#[must_use]
pub fn replica_of(user_agent: &str) -> Option<u8> {
    let (_, rest) = user_agent.split_once(REPLICA)?;
    rest.split([';', ')']).next()?.parse().ok()
}

/// Rules about the user agents of a subject.
#[derive(Clone, Debug, Default)]
pub struct AgentRules {
    /// Agents that do not end in their controller's name: `--agent ttl=PATTERN`.
    pub patterns: Vec<(Controller, Regex)>,
    /// Last segments of the agents of declared companions, which run alongside and are not judged.
    pub companions: BTreeSet<String>,
    /// The name of the subject if it is any program: all requests are its own.
    pub program: Option<String>,
}

/// Attributes each request of a subject to one of its controllers, by user agent. Those of any program are its own.
///
/// 1. An agent that ends in the name of a declared companion is not judged.
/// 2. An agent that matches a pattern of `--agent` is that pattern's controller.
/// 3. An agent that ends in a controller's name is that controller ([`Actor::from_user_agent`]).
/// 4. With one controller under test, all other requests are that controller's, except writes to resources that no
///    fixture judges.
/// 5. All others are a bystander's, also those of a controller that is not under test.
#[derive(Clone, Debug)]
pub struct Agents {
    rules: AgentRules,
    controllers: BTreeSet<Controller>,
}

impl Agents {
    /// Creates the attribution for the controllers under test.
    #[must_use]
    pub fn new(rules: AgentRules, controllers: &[Controller]) -> Self {
        Self { rules, controllers: controllers.iter().copied().collect() }
    }

    /// Returns the actor of a request with this user agent. `writes` is the resource that it writes to, if it writes.
    #[must_use]
    pub fn actor(&self, user_agent: &str, writes: Option<&str>) -> Actor {
        if let Some(program) = &self.rules.program {
            return Actor::Controller(program.clone());
        }
        let name = Origin::short_name_of(user_agent).to_owned();
        if self.rules.companions.contains(&name) {
            return Actor::Other(name);
        }
        let mapped = self.rules.patterns.iter().find(|(_, pattern)| pattern.is_match(user_agent));
        match mapped.map_or_else(|| Actor::from_user_agent(user_agent), |(controller, _)| (*controller).into()) {
            Actor::Informers => Actor::Informers,
            actor => match actor.controller() {
                Some(controller) if self.controllers.contains(&controller) => actor,
                Some(controller) => Actor::Bystander(controller.as_str().to_owned()),
                None => self.unnamed(name, writes),
            },
        }
    }

    /// Returns the actor of a request whose agent names no controller.
    fn unnamed(&self, name: String, writes: Option<&str>) -> Actor {
        match self.only() {
            Some(only) if writes.is_none_or(is_judged) => only.into(),
            _ => Actor::Bystander(name),
        }
    }

    /// The only controller under test.
    fn only(&self) -> Option<Controller> {
        self.controllers.first().copied().filter(|_| self.controllers.len() == 1)
    }

    /// Returns the attribution of `request` for the record.
    #[must_use]
    pub fn attribute(&self, request: &ApiRequest) -> Arc<str> {
        let target = Target::parse(&request.path);
        let writes = match &target {
            Target::Resource(path) if !matches!(request.method, Method::GET | Method::HEAD) => {
                Some(path.resource.as_str())
            }
            _ => None,
        };
        self.actor(request.user_agent(), writes).attribution().into()
    }

    /// Returns [`Agents::attribute`] for a transport.
    #[must_use]
    pub fn attributor(self) -> Attributor {
        Arc::new(move |request| self.attribute(request))
    }
}

/// A server in this process as the subject reaches it: all requests are attributed to the subject.
#[derive(Clone)]
pub struct InProcessEndpoint {
    server: ApiServer,
    attributor: Attributor,
}

impl InProcessEndpoint {
    /// Wraps `server`.
    #[must_use]
    pub fn new(server: ApiServer, agents: Agents) -> Self {
        Self { server, attributor: agents.attributor() }
    }

    /// Returns a service for the subject's clients.
    #[must_use]
    pub fn service(&self) -> InProcessService {
        self.server.service().attributed(self.attributor.clone())
    }
}

impl fmt::Debug for InProcessEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessEndpoint").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::transcript::{Attributed as _, USER_AGENT_OF_STEPS};

    const PYTHON: &str = "OpenAPI-Generator/37.0.2/python";
    const PODGC: &str = "x/1 pod-garbage-collector";
    const TTL_AND_PODGC: &[Controller] = &[Controller::Ttl, Controller::PodGc];

    #[rstest]
    #[case::by_its_name(TTL_AND_PODGC, "x/1 ttl-controller", Some("nodes"), Actor::Ttl)]
    #[case::informers(&[Controller::Ttl], "x/1 shared-informers", None, Actor::Informers)]
    #[case::by_a_pattern(TTL_AND_PODGC, "mine/1", Some("nodes"), Actor::Ttl)]
    #[case::the_only_one(&[Controller::Ttl], PYTHON, Some("nodes"), Actor::Ttl)]
    #[case::the_only_one_reads(&[Controller::Ttl], PYTHON, None, Actor::Ttl)]
    #[case::other_kinds(&[Controller::Ttl], PYTHON, Some("replicasets"), Actor::Bystander("python".into()))]
    #[case::one_of_several(TTL_AND_PODGC, PYTHON, Some("nodes"), Actor::Bystander("python".into()))]
    #[case::not_under_test(&[Controller::Ttl], PODGC, Some("pods"), Actor::Bystander("podgc".into()))]
    #[case::companion(&[Controller::Ttl], "x/1 helper", Some("pods"), Actor::Other("helper".into()))]
    #[case::the_steps_agent(TTL_AND_PODGC, USER_AGENT_OF_STEPS, Some("nodes"), Actor::Bystander("user".into()))]
    #[case::the_kubelets_agent(&[Controller::Ttl], "kubelet/v1.36.0 kubelet", Some("nodes"), Actor::Ttl)]
    fn the_actor_of_a_request(
        #[case] controllers: &[Controller],
        #[case] agent: &str,
        #[case] writes: Option<&str>,
        #[case] actor: Actor,
    ) {
        let pattern = Regex::new("^mine/").expect("a pattern");
        let companions = ["helper".to_owned()].into();
        let agents = Agents::new(
            AgentRules { patterns: vec![(Controller::Ttl, pattern)], companions, program: None },
            controllers,
        );
        assert_eq!(agents.actor(agent, writes), actor);
        let origin = Origin::client(agent, "").attributed(Some(actor.attribution().into()));
        assert_eq!(origin.actor(), actor, "the attribution is parsed again");
    }
}
