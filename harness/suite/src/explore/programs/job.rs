//! The job of a run, and the facts that it returns: documents that two processes exchange.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use plumbline::explore::faults::Disturbance;
use plumbline::explore::faults::point::{FaultPoint, Site};
use plumbline::fixture::pattern::Verb;
use plumbline::fixture::{Resource, Target};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rights::UsedRights;
use super::state::{EndState, Expected};

/// The program of an exploration, and its surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExploredProgram {
    /// Its name in transcripts.
    pub name: String,
    /// The command line with placeholders.
    pub argv: Vec<String>,
    /// Variables added to its environment.
    pub env: Vec<(String, String)>,
    /// Plain HTTP instead of HTTPS.
    pub http: bool,
    /// A file with the roles of its service accounts; `None` permits everything.
    pub role: Option<PathBuf>,
    /// Flags of `serve` for the cluster around it.
    pub around: Vec<String>,
}

/// A scenario as its files have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// Its file, whose name is its name.
    pub file: PathBuf,
    /// The text of the file.
    pub text: String,
    /// Objects that exist before those of the scenario: custom resource definitions, for the most part.
    pub manifests: Vec<Value>,
    /// The number of its steps that count, if it is a beginning.
    #[serde(default)]
    pub steps: Option<usize>,
}

/// A run to make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerJob {
    /// The program.
    pub program: ExploredProgram,
    /// The history.
    pub scenario: Scenario,
    /// The faults to inject.
    pub faults: Vec<(String, Point)>,
    /// True if the scenario's own faults are injected as well.
    pub own_faults: bool,
    /// The state at the end of the run without faults; once it is reached and nothing happens any more, the run is
    /// over.
    pub expected: Option<Expected>,
    /// Times after the last step and the last fault, in milliseconds, at which the run may be over.
    pub checkpoints: Vec<u64>,
    /// Steps that come later than in the scenario.
    #[serde(default)]
    pub delay: Option<StepDelay>,
    /// Steps that come at once.
    #[serde(default)]
    pub merge: Option<StepMerge>,
    /// Length of the window in which a converged program must be quiet, in milliseconds.
    pub quiet: u64,
    /// Time that the program gets after a fresh start at the end, in milliseconds.
    pub fresh: u64,
    /// The folder for its logs.
    pub logs: PathBuf,
}

/// A delay of the later steps of a scenario, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepDelay {
    /// Steps after this time are delayed.
    pub after: u64,
    /// The delay.
    pub by: u64,
}

/// Steps of a scenario, by their indexes, that come at once: those before the last one at its time; or those after the
/// first one at its time, and ahead of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepMerge {
    /// The first of the steps.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// True if the later ones come ahead of the first.
    pub ahead: bool,
}

/// A [`FaultPoint`] as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// `GET`, `LIST`, …, or `EVENT` for the delivery of a change.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural.
    pub plural: String,
    /// True if the objects have namespaces.
    pub namespaced: bool,
    /// Namespace; `*` for all.
    pub namespace: Option<String>,
    /// Name, or a pattern; empty for collections.
    pub name: String,
    /// `status`, `scale`, …
    pub subresource: Option<String>,
    /// Number among the equal points of the run, from 1.
    pub occurrence: u32,
    /// Time in the run, in milliseconds.
    pub at: u64,
    /// Time of the next step of the history, in milliseconds, if it follows soon.
    pub next_step: Option<u64>,
    /// Number of changes and writes before it, which shows points between which nothing happened.
    pub before: usize,
    /// The same after it took effect.
    pub after: usize,
    /// True for the renewal of a lock of the program's leader.
    #[serde(default)]
    pub lock: bool,
    /// The thing that it is about: the object that a creation made, or the kind of a change with who made it. It
    /// decides about the order of plans alone.
    #[serde(default)]
    pub about: String,
}

/// Returns milliseconds.
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const EVENT: &str = "EVENT";

/// The verbs of requests at which faults can happen.
const VERBS: [Verb; 7] = [Verb::Get, Verb::List, Verb::Watch, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete];

impl Point {
    /// Makes the document of a point between these numbers of changes.
    #[must_use]
    pub fn new(point: &FaultPoint, (before, after): (usize, usize)) -> Self {
        let FaultPoint { site, target, occurrence, at, next_step, .. } = point;
        let resource = &target.resource;
        Self {
            verb: match site {
                Site::Request(verb) => verb.as_str().to_owned(),
                Site::Event | Site::Run => EVENT.to_owned(),
            },
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            plural: resource.plural.to_string(),
            namespaced: resource.namespaced,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            subresource: target.subresource.clone(),
            occurrence: *occurrence,
            at: millis(*at),
            next_step: next_step.map(millis),
            before,
            after,
            lock: false,
            about: String::new(),
        }
    }

    /// Returns the point.
    #[must_use]
    pub fn point(&self) -> FaultPoint {
        let verb = VERBS.into_iter().find(|verb| verb.as_str() == self.verb);
        let resource = Resource {
            group: self.group.clone().into(),
            version: self.version.clone().into(),
            plural: self.plural.clone().into(),
            kind: String::new().into(),
            namespaced: self.namespaced,
        };
        FaultPoint {
            site: verb.map_or(Site::Event, Site::Request),
            target: Target {
                resource,
                namespace: self.namespace.clone(),
                name: self.name.clone(),
                subresource: self.subresource.clone(),
            },
            occurrence: self.occurrence,
            at: Duration::from_millis(self.at),
            seq: 0,
            next_step: self.next_step.map(Duration::from_millis),
        }
    }
}

/// A fault of a plan: its kind, and the point at which it happens.
pub type PlannedFault = (Disturbance, Point);

/// A request of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Time in milliseconds.
    pub at: u64,
    /// API verb.
    pub verb: String,
    /// `pods`, `pods/status`
    pub resource: String,
    /// Namespace and name with random parts blurred; for a creation those of the new object.
    pub object: String,
    /// The status code of the reply; 0 without one.
    pub code: u16,
    /// Reason and message of a refusal.
    pub refusal: String,
    /// A fault answered, or withheld the answer.
    pub faulted: bool,
    /// It changed an object.
    pub changed: bool,
    /// Its object existed before.
    #[serde(default)]
    pub existed: bool,
    /// The request as in a transcript.
    pub text: String,
}

/// An end of the program by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedExit {
    /// Time in milliseconds.
    pub at: u64,
    /// The reason, with the end of its log.
    pub reason: String,
    /// True if its output shows a panic, a crash or an exception that was not caught.
    pub panicked: bool,
    /// The thing that the program had lost shortly before: a right, its lease, its server.
    #[serde(default)]
    pub lost: Option<String>,
}

/// The facts of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The reason if the run ended before its end.
    pub ending: Option<Ending>,
    /// Ends of the program.
    pub exits: Vec<RecordedExit>,
    /// Steps with another reply than the scenario names, which is success by default.
    #[serde(default)]
    pub failed_steps: Vec<String>,
    /// The program's requests until the end of the quiet window, without those about locks.
    pub requests: Vec<Request>,
    /// Number of requests that are not listed because there were too many.
    pub omitted: usize,
    /// The rights that the requests need, also those about locks.
    #[serde(default)]
    pub rights: UsedRights,
    /// The points at which faults can happen.
    pub points: Vec<Point>,
    /// The objects at the end.
    pub state: EndState,
    /// The objects before steps, by the step's index; in runs without an expected state alone.
    #[serde(default)]
    pub before: BTreeMap<usize, EndState>,
    /// The steps before which the objects were not those of the run without the fault.
    #[serde(default)]
    pub strayed: Vec<usize>,
    /// The locks of the program's leader.
    #[serde(default)]
    pub locks: BTreeSet<String>,
    /// The finalizers that the program adds or removes.
    #[serde(default)]
    pub finalizers: BTreeSet<String>,
    /// Objects that the program created or changed and that point to an object that is gone.
    pub left: BTreeMap<String, String>,
    /// Objects that the program deleted.
    pub deleted: BTreeMap<String, Deletion>,
    /// Number of times that the clients of the steps created and deleted each object, and were refused.
    #[serde(default)]
    pub by_steps: BTreeMap<String, [u32; 3]>,
    /// Objects that are being deleted at the end, with their finalizers.
    pub stuck: BTreeMap<String, String>,
    /// Writes that changed something in the quiet window.
    pub late: Vec<String>,
    /// Requests in the quiet window.
    pub busy: usize,
    /// Writes that changed something after the fresh start.
    pub fresh: Vec<String>,
    /// Writes of objects of which the program had not seen the present state, without a precondition.
    pub blind: Vec<Blind>,
    /// Updates of the main resource that changed a status which has a subresource, or tried to.
    pub by_update: Vec<String>,
    /// Objects that are left or missing if a watch skips the state between two updates, with what happens; in runs
    /// without faults.
    #[serde(default)]
    pub skipped: BTreeMap<String, String>,
    /// Faults of the plan that no request met.
    pub idle_faults: Vec<String>,
    /// True if the run was over before its last checkpoint.
    pub early: bool,
    /// The time at which the run ended, in milliseconds.
    pub end: u64,
    /// Wall time of the run, in microseconds.
    pub wall: u64,
    /// The end of the program's log.
    pub log: Vec<String>,
    /// The transcript.
    pub transcript: String,
}

/// The deletions of an object by the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// Time of the first request in milliseconds.
    pub at: u64,
    /// Time of the last step of the scenario until then, in milliseconds.
    #[serde(default)]
    pub step: u64,
    /// The first request.
    pub request: String,
    /// Number of requests that took effect, with the last of them.
    pub effective: (u32, String),
}

/// A write or deletion of an object whose present state the program had not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blind {
    /// `pods`
    pub resource: String,
    /// `delete`, `update`
    pub verb: String,
    /// Time in milliseconds.
    pub at: u64,
    /// Description of the write.
    pub text: String,
}

/// A run that ended before its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// The kind of the end.
    pub kind: EndingKind,
    /// The reason.
    pub text: String,
}

/// Kinds of early ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndingKind {
    /// The environment failed.
    #[default]
    Environment,
    /// The server refuses the objects of the scenario.
    Seed,
    /// The program does not start.
    Launch,
    /// The program ends again and again.
    Exits,
    /// The program requests without an end.
    Storm,
    /// The run did not end within its wall time.
    Hang,
}
