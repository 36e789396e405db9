//! The points of a reference run at which a fault can happen: requests of the subject, and changes of objects that it
//! watches. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::fixture::pattern::{Resources, Verb};
use crate::fixture::{RequestPattern, Resource, Target};
use crate::transcript::{Attributed as _, Change, EntryKind, RecordedRequest, TranscriptEntry};

/// The place of a fault in the traffic between the subject and the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// A request of the subject.
    Request(Verb),
    /// The delivery of a change to the subject's watch.
    Event,
    /// The whole run.
    Run,
}

/// A moment of a run at which a fault can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPoint {
    /// The place.
    pub site: Site,
    /// The object of the request or of the change; without a name for lists, watches and creations.
    pub target: Target,
    /// Number of this point among the equal ones of the run, from 1.
    pub occurrence: u32,
    /// Its time in the run, as an offset from the start.
    pub at: Duration,
    /// Position of its entry in the transcript.
    pub seq: usize,
    /// Time of the next step of the history, if it follows within [`LONGEST_ACROSS`].
    pub next_step: Option<Duration>,
}

/// Longest time from a point to the step of the history that counts as the next one.
pub const LONGEST_ACROSS: Duration = Duration::from_mins(1);

/// The word of a fault's site in tokens if it concerns the whole run.
const RUN: &str = "RUN:";

impl FaultPoint {
    /// Creates the point of a fault that concerns the whole run. Its number is the seed of the fault.
    #[must_use]
    pub fn of_run(seed: u32) -> Self {
        let resource = Resource {
            group: "".into(),
            version: "".into(),
            plural: "order".into(),
            kind: "".into(),
            namespaced: false,
        };
        let target = Target { resource, namespace: None, name: String::new(), subresource: None };
        Self { site: Site::Run, target, occurrence: seed, at: Duration::ZERO, seq: 0, next_step: None }
    }

    /// Returns the point of the whole run that `text` names: `RUN:order#17`.
    #[must_use]
    pub fn parse_run(text: &str) -> Option<Self> {
        let (_, seed) = text.strip_prefix(RUN)?.rsplit_once('#')?;
        seed.parse().ok().map(Self::of_run)
    }

    /// Returns the request pattern that selects the request of this point and the later ones like it.
    #[must_use]
    pub fn pattern(&self) -> RequestPattern {
        let verb = match self.site {
            Site::Request(verb) => verb,
            Site::Event | Site::Run => Verb::Any,
        };
        let text = format!("{} {}", verb.as_str(), self.target);
        RequestPattern { text, at: None, actor: None, verb, target: self.target.clone(), code: None }
    }
}

/// Prints the point as in a token: `PATCH:pods/a/status#1`.
impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.site {
            Site::Request(verb) => verb.as_str(),
            Site::Event => "EVENT",
            Site::Run => "RUN",
        };
        write!(f, "{word}:{}#{}", self.target, self.occurrence)
    }
}

/// Returns the points of a run with steps at these times, in order. Only resources that the subject lists or watches
/// have events, and requests that are the subject's own (`is_own`) have no faults.
#[must_use]
pub fn points(
    entries: &[TranscriptEntry],
    resources: &Resources,
    steps: &[Duration],
    is_own: impl Fn(&RecordedRequest) -> bool,
) -> Vec<FaultPoint> {
    let steps: BTreeSet<Duration> = steps.iter().copied().collect();
    let watched = watched(entries);
    let mut occurrences: BTreeMap<String, u32> = BTreeMap::new();
    let mut points = Vec::new();
    for entry in entries {
        let found = match &entry.what {
            EntryKind::Request(exchange) if entry.actor().is_subject() && !is_own(&exchange.request) => {
                request_site(&exchange.request).map(|verb| (Site::Request(verb), target(&exchange.request, resources)))
            }
            EntryKind::Change(change) if watched.contains(&(change.group.as_str(), change.resource.as_str())) => {
                Some((Site::Event, changed(change, resources)))
            }
            _ => None,
        };
        let Some((site, target)) = found else { continue };
        let next = steps.range(entry.at + Duration::from_nanos(1)..).next().copied();
        let next_step = next.filter(|next| *next <= entry.at + LONGEST_ACROSS);
        let mut point = FaultPoint { site, target, occurrence: 0, at: entry.at, seq: entry.seq, next_step };
        let count = occurrences.entry(point.to_string()).or_default();
        *count += 1;
        point.occurrence = *count;
        points.push(point);
    }
    points
}

/// Returns group and plural of the resources that the subject lists or watches.
fn watched(entries: &[TranscriptEntry]) -> BTreeSet<(&str, &str)> {
    crate::expect::requests(entries)
        .filter(|(entry, exchange)| {
            entry.actor().is_subject() && matches!(exchange.request.verb.as_str(), "list" | "watch")
        })
        .map(|(_, exchange)| (exchange.request.group.as_str(), exchange.request.resource.as_str()))
        .collect()
}

/// Returns true for the questions of a program about tokens and rights.
#[must_use]
pub fn is_review(request: &RecordedRequest) -> bool {
    matches!(request.resource.as_str(), "tokenreviews" | "subjectaccessreviews")
}

/// Returns true for the reviews of a program, and for the leases with which it elects its leader.
#[must_use]
pub fn is_lease_or_review(request: &RecordedRequest) -> bool {
    request.resource == "leases" || is_review(request)
}

/// Returns the verb of a request that a fault can select; `None` for requests about no resource.
fn request_site(request: &RecordedRequest) -> Option<Verb> {
    (!request.resource.is_empty()).then_some(match request.verb.as_str() {
        "get" => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" => Verb::Post,
        "update" => Verb::Put,
        "patch" => Verb::Patch,
        "delete" => Verb::Delete,
        _ => return None,
    })
}

fn target(request: &RecordedRequest, resources: &Resources) -> Target {
    let resource = resource(&request.group, &request.version, &request.resource, resources);
    let namespace = resource.namespaced.then(|| request.namespace.clone().unwrap_or_else(|| "*".to_owned()));
    // The name of a new Event is made from the time, so it selects nothing in another run.
    let name = match &request.name {
        Some(_) if request.resource == "events" => "*".to_owned(),
        name => name.clone().unwrap_or_default(),
    };
    Target { resource, namespace, name, subresource: request.subresource.clone() }
}

fn changed(change: &Change, resources: &Resources) -> Target {
    let resource = resource(&change.group, "v1", &change.resource, resources);
    let namespace = change.namespace.clone().filter(|namespace| !namespace.is_empty() && resource.namespaced);
    Target { resource, namespace, name: change.name.clone(), subresource: None }
}

/// Returns the resource of that name. A kind that no CRD of the fixture declares is assumed to be namespaced.
fn resource(group: &str, version: &str, plural: &str, resources: &Resources) -> Resource {
    let known = resources.find(plural).ok().filter(|resource| resource.group == group);
    known.unwrap_or_else(|| Resource {
        group: group.to_owned().into(),
        version: version.to_owned().into(),
        plural: plural.to_owned().into(),
        kind: String::new().into(),
        namespaced: true,
    })
}
