//! Explorations: the same test again and again, each time with one fault that it does not name, judged by oracles that
//! need no expectations.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use super::cluster::{World, WorldBuilder};
use super::error::{Error, Result};
use super::own_thread::{COMPARED, in_own_thread};
use super::resources::NAMESPACE;
use super::transcript;
use super::world_state::WorldState;
use crate::expect::world::{Key, ObjectStates};
use crate::expect::{is_subject_write, line};
use crate::explore::breach::{self, Breach, END_STATE};
use crate::explore::faults::inject::{RESTART_AFTER, hold_patch};
use crate::explore::faults::plan::FaultPlan;
use crate::explore::faults::point::{FaultPoint, is_lease_or_review, points};
use crate::explore::faults::{Disturbance, FaultTrait};
use crate::explore::findings::Findings;
use crate::explore::left::LEFT;
use crate::explore::schedule::{Settling, in_turns};
use crate::explore::state::{ChangedObjects, MISSING, by_part, changed_objects, differences, is_compared};
use crate::faults::set_watch_fault;
use crate::fixture::{Action, Control, Interference, Operation, Target};
use crate::invariants;
use crate::time::Stopwatch;
use crate::transcript::{Attributed as _, ChangeKind, EntryKind, RecordedJson, TranscriptEntry};
use advances::Beginning;
use alone::judge_alone;
use beginnings::TriedBeginnings;
use deletions::{can_be_deleted, custom_objects, last_before_deletion};

/// Runs of an exploration that sets no other number.
const RUNS: usize = 400;
/// Most entries of the transcript of a run with a fault: this many times those of the run without, and a few more.
const ENTRIES: (usize, usize) = (10, 2000);
/// Most entries of the transcript of the run without a fault.
const ENTRIES_WITHOUT: usize = 200_000;
/// Virtual times after the test, and the last fault, have ended.
const SETTLING: Settling = Settling::OF_TESTS;
/// Findings that an error describes.
const SHOWN_FINDINGS: usize = 10;
/// Points that an error lists.
const POINTS: usize = 40;
/// Writes that are shown of a run that was stopped.
const LAST: usize = 6;
/// The oracle that compares what was created.
const CREATIONS: &str = "creations";

/// Explores a test: runs it without faults, and then once for each fault at each request and event of its controllers.
///
/// ```
/// use plumbline::world::{Explorer, seconds};
/// # async fn run(client: kube::Client) {
/// #     let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(client);
/// #     let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
/// #     while !matches!(api.get_opt("a").await, Ok(Some(_))) {
/// #         let _ = api.create(&Default::default(), &map).await;
/// #         tokio::time::sleep(seconds(1)).await;
/// #     }
/// #     std::future::pending().await
/// # }
///
/// # fn main() -> plumbline::Result {
/// let summary = Explorer::new().runs(40).explore(async |t| {
///     t.run("keeper", run)?;
///     t.advance(seconds(60)).await
/// })?;
/// assert!(summary.tried > 10, "{summary}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `explore`"]
pub struct Explorer {
    world: WorldBuilder,
    runs: usize,
    wall: Option<Duration>,
    share: Option<u8>,
}

/// The result of an exploration without findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExploreSummary {
    /// Number of faults that were tried, one in each run.
    pub tried: usize,
    /// Number of faults to try.
    pub planned: usize,
    /// Number of requests and events at which faults can happen.
    pub points: usize,
}

impl fmt::Display for ExploreSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, planned, points } = self;
        write!(f, "{tried} of {planned} faults at {points} points")?;
        match planned - tried {
            0 => Ok(()),
            left => write!(f, "; {left} were not tried: raise Explorer::runs"),
        }
    }
}

/// The facts of a run.
struct ExploredWorld {
    /// The breach with which the run ended early.
    ending: Option<Breach>,
    points: Vec<FaultPoint>,
    initial: BTreeMap<Key, RecordedJson>,
    objects: ChangedObjects,
    /// Changes by the controllers after they had converged.
    late: Vec<String>,
    /// Changes by restarted controllers.
    fresh: Vec<String>,
    /// Numbers of objects that the controllers created, by resource, until they had converged.
    created: BTreeMap<String, usize>,
    /// The breaches that the run shows by itself.
    alone: Vec<Breach>,
    beginnings: Vec<Beginning>,
    /// The times at which the advances of the test end.
    advances: Vec<Duration>,
    /// The custom objects that controllers did not make.
    custom: BTreeSet<Key>,
    /// Another client deleted an object that the test does not delete.
    is_deleted: bool,
    /// Number of entries of the transcript.
    length: usize,
    /// The world started a controller, so that it can start it again.
    can_crash: bool,
    text: String,
}

/// The length of a run, and what happens beside the test.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RunLength {
    /// The time that it has beside the usual one.
    extra: Duration,
    /// The number of the advance with which the test ends; `None` if it is the whole test.
    last: Option<usize>,
    /// The object that another client deletes: during the test, or without the fault when controllers have converged.
    deleted: Option<Target>,
}

/// Runs without faults.
type References = BTreeMap<RunLength, ExploredWorld>;

/// A run with a fault, and the run without it that is as long.
struct ComparedWorlds<'r> {
    reference: &'r ExploredWorld,
    explored: ExploredWorld,
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

impl Explorer {
    /// Creates an explorer with a budget of 400 runs. Wall time does not count, so that a busy machine tries as much as
    /// an idle one.
    pub fn new() -> Self {
        Self { world: WorldBuilder::default(), runs: RUNS, wall: None, share: None }
    }

    /// Sets the largest number of runs with a fault.
    pub fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// Sets a wall time after which no run begins. An exploration that tries fewer faults than
    /// [`Explorer::runs`] because of it fails, unless [`Explorer::at_least`] allows it.
    pub fn time(mut self, wall: Duration) -> Self {
        self.wall = Some(wall);
        self
    }

    /// Sets the smallest share of all faults, in percent, that has to be tried; otherwise the exploration fails. By
    /// default all have to be tried, up to [`Explorer::runs`].
    pub fn at_least(mut self, percent: u8) -> Self {
        self.share = Some(percent);
        self
    }

    /// Sets the settings of the worlds.
    pub fn world(mut self, world: WorldBuilder) -> Self {
        self.world = world;
        self
    }

    /// Runs `test` without faults, and then with one fault after another: requests that fail, are slow, take effect
    /// without a reply or conflict with another client, which may delete the object; crashes; watch events that come
    /// late, together or not at all; three minutes without a server, or ten without a right. Rare kinds of fault come
    /// first, and of each kind the first request, the last, and then those between.
    ///
    /// After `test` the controllers get half an hour to converge. The oracles:
    ///
    /// - **test**: `test` returns no error and does not panic. So it should expect only what holds with any single
    ///   fault.
    /// - **alive**: no controller fails, panics or loops.
    /// - **rules**: what [`World::uphold`] and [`World::always`] promise holds.
    /// - **end state**: the objects are those of the run without faults, but for versions, uids and times. If they are
    ///   not before a step that follows [`World::advance`], which may hide that, the test is repeated up to there.
    /// - **quiet**: converged controllers change nothing for ten minutes.
    /// - **fresh**: controllers that start again change nothing.
    /// - **creations**: the controllers create no more objects than without the fault, also none that they delete
    ///   again.
    /// - **blind**: no object is deleted or overwritten, without a precondition, of which they had not seen the present
    ///   state.
    /// - **left**: nothing is left that they made for a custom object that was deleted.
    /// - **refused**: they send no request five times that the server refuses as invalid.
    /// - **storm**: they send no request more than 20 times within a second, each a moment after the one before.
    ///
    /// The last four judge the run without faults as well.
    ///
    /// A line on standard error says how many faults were tried, also if nothing was found.
    ///
    /// # Errors
    ///
    /// Returns the findings, each with the line that repeats it; or the first difference if two runs without faults
    /// differ; or the failure of the run without faults; or the numbers if too few faults were tried.
    #[track_caller]
    pub fn explore(self, test: impl AsyncFn(&World) -> Result + Sync) -> Result<ExploreSummary> {
        here!(self.run_all(&test))
    }

    /// Runs `test` with the fault that a finding names, such as `drop@PATCH:configmaps/a#1`, and prints the transcript.
    /// With `~2` at its end, the test ends with its second advance.
    ///
    /// # Errors
    ///
    /// Returns the finding if it repeats, or the points of the run if it has no such point.
    #[track_caller]
    pub fn replay(self, plan: &str, test: impl AsyncFn(&World) -> Result + Sync) -> Result {
        here!(self.run_again(plan, &test))
    }

    fn run_all(&self, test: &(impl AsyncFn(&World) -> Result + Sync)) -> Result<ExploreSummary> {
        let _alone = COMPARED.lock();
        let mut references = self.references(test)?;
        let watch = Stopwatch::start();
        let first = &references[&RunLength::default()];
        let plans = plans(first);
        let mut summary = ExploreSummary { tried: 0, planned: plans.len(), points: first.points.len() };
        let mut findings = Findings::default();
        let mut beginnings = TriedBeginnings::default();
        for breach in &first.alone {
            findings.add(&FaultPlan::default(), breach);
        }
        for (disturbance, point) in plans {
            if summary.tried >= self.runs || self.wall.is_some_and(|wall| watch.elapsed() >= wall) {
                break;
            }
            summary.tried += 1;
            for (plan, breach) in self.breaches((disturbance, &point), &mut references, &mut beginnings, test)? {
                findings.add(&plan, &breach);
            }
        }
        let required = match self.share {
            Some(percent) => (summary.planned * usize::from(percent)).div_ceil(100),
            None => summary.planned.min(self.runs),
        };
        say(&format!("explored {summary}: {}", if findings.is_empty() { "no finding" } else { "findings" }));
        if !findings.is_empty() {
            return Err(Error::new(described(&findings, &summary)));
        }
        if summary.tried < required {
            let text = format!(
                "too little was explored: {summary}. {required} faults are required: allow more time with \
                 Explorer::time, or require fewer with Explorer::at_least"
            );
            return Err(Error::new(text));
        }
        Ok(summary)
    }

    /// Runs the test with a fault. A run that ends well is repeated without the steps that may have mended it.
    fn breaches(
        &self,
        fault: (Disturbance, &FaultPoint),
        references: &mut References,
        beginnings: &mut TriedBeginnings,
        test: &(impl AsyncFn(&World) -> Result + Sync),
    ) -> Result<Vec<(FaultPlan, Breach)>> {
        let compared = self.run_with(fault, None, references, test)?;
        let mut found: Vec<(Option<usize>, Breach)> =
            judge(&compared).into_iter().map(|breach| (None, breach)).collect();
        let ends_well =
            compared.explored.ending.is_none() && found.iter().all(|(_, breach)| breach.oracle != END_STATE);
        let ends_well = ends_well && !compared.explored.is_deleted;
        // A beginning that cannot end there by itself is not explored, and nor is one of a run that ended early.
        if let Some(last) = ends_well.then(|| beginnings.next(&compared, fault)).flatten()
            && let Ok(compared) = self.run_with(fault, Some(last), references, test)
        {
            found.extend(judge(&compared).into_iter().map(|breach| (Some(last), breach)));
        }
        // A run counts once for each finding.
        found.sort_by_key(|(last, breach)| (breach.fingerprint(), *last));
        found.dedup_by_key(|(_, breach)| breach.fingerprint());
        let faults = vec![(fault.0, fault.1.clone())];
        let plan = |last: Option<usize>| FaultPlan {
            fixture: last.map(|last| format!("~{last}")).unwrap_or_default(),
            faults: faults.clone(),
        };
        Ok(found.into_iter().map(|(last, breach)| (plan(last), breach)).collect())
    }

    fn run_again(&self, plan: &str, test: &(impl AsyncFn(&World) -> Result + Sync)) -> Result {
        let _alone = COMPARED.lock();
        let mut references = self.references(test)?;
        let points = references[&RunLength::default()].points.clone();
        let (faults, last) = match plan.rsplit_once('~') {
            Some((faults, last)) => (faults, last.parse().ok()),
            None => (plan, None),
        };
        let found = faults.split_once('@').and_then(|(name, point)| {
            let point = points.iter().find(|known| known.to_string() == point)?;
            Some((Disturbance::parse(name)?, point))
        });
        let Some((disturbance, point)) = found else {
            let known: Vec<String> = points.iter().take(POINTS).map(ToString::to_string).collect();
            let more = match points.len().saturating_sub(POINTS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Err(Error::new(format!("no run has the plan `{plan}`; its points: {}{more}", known.join(", "))));
        };
        let compared = self.run_with((disturbance, point), last, &mut references, test)?;
        print(&compared.explored.text);
        match judge(&compared).into_iter().next() {
            Some(breach) => Err(Error::new(format!("{}: {}", breach.fingerprint(), breach.text))),
            None => Ok(()),
        }
    }

    /// Runs the test without faults, twice. Another run before them fills the caches of the process.
    fn references(&self, test: &(impl AsyncFn(&World) -> Result + Sync)) -> Result<References> {
        self.run_without(RunLength::default(), test)?;
        let reference = self.run_without(RunLength::default(), test)?;
        let again = self.run_without(RunLength::default(), test)?;
        if let Some(difference) = transcript::first_difference(&reference.text, &again.text) {
            let text = "the test is not deterministic, so faults cannot be aimed: a second run differs from the first";
            return Err(Error::new(format!("{text} {difference}")));
        }
        Ok(References::from([(RunLength::default(), reference)]))
    }

    /// Runs the test without faults.
    fn run_without(&self, length: RunLength, test: &(impl AsyncFn(&World) -> Result + Sync)) -> Result<ExploredWorld> {
        let explored = self.run(None, (length, ENTRIES_WITHOUT), test)?;
        match &explored.ending {
            Some(Breach { oracle, text, .. }) => Err(Error::new(format!("without any fault: {oracle}: {text}"))),
            None => Ok(explored),
        }
    }

    /// Runs the test with a fault, and returns the run with the one without the fault that is as long.
    fn run_with<'r>(
        &self,
        fault: (Disturbance, &FaultPoint),
        last: Option<usize>,
        references: &'r mut References,
        test: &(impl AsyncFn(&World) -> Result + Sync),
    ) -> Result<ComparedWorlds<'r>> {
        let mut length = RunLength { extra: whole_minutes(fault.0.duration()), last, deleted: None };
        if fault.0.is(FaultTrait::ChangesHistory) {
            // What comes after the deletion may need the object.
            length.last = last_before_deletion(&references[&RunLength::default()].advances, fault.1);
            length.deleted = Some(fault.1.target.object());
        }
        let reference = match references.entry(length.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(self.run_without(length.clone(), test)?),
        };
        let limit = reference.length * ENTRIES.0 + ENTRIES.1;
        let explored = self.run(Some(fault), (length, limit), test)?;
        Ok(ComparedWorlds { reference, explored })
    }

    fn run(
        &self,
        fault: Option<(Disturbance, &FaultPoint)>,
        limits: (RunLength, usize),
        test: &(impl AsyncFn(&World) -> Result + Sync),
    ) -> Result<ExploredWorld> {
        in_own_thread(|| {
            let run = || self.world.run_virtual(run_world(self.world.clone(), fault, limits, test));
            match std::panic::catch_unwind(AssertUnwindSafe(run)) {
                Ok(explored) => explored?,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("without a text");
                    Ok(ExploredWorld::ended("test", format!("it panics: {text}")))
                }
            }
        })?
    }
}

impl ExploredWorld {
    fn ended(oracle: &str, text: String) -> Self {
        Self {
            ending: Some(Breach::of_run(oracle, "", Duration::ZERO, text)),
            points: Vec::new(),
            initial: BTreeMap::new(),
            objects: ChangedObjects::new(),
            late: Vec::new(),
            fresh: Vec::new(),
            created: BTreeMap::new(),
            alone: Vec::new(),
            beginnings: Vec::new(),
            advances: Vec::new(),
            custom: BTreeSet::new(),
            is_deleted: false,
            length: 0,
            can_crash: false,
            text: String::new(),
        }
    }
}

async fn run_world(
    builder: WorldBuilder,
    fault: Option<(Disturbance, &FaultPoint)>,
    (length, limit): (RunLength, usize),
    test: &impl AsyncFn(&World) -> Result,
) -> Result<ExploredWorld> {
    let world = builder.make()?;
    // A finding is described once; the transcript of each run would hide it.
    world.finished.set(true);
    let mut steps = Vec::new();
    if let Some((disturbance, point)) = fault {
        let injection = disturbance.inject(point, RESTART_AFTER);
        for (number, fault) in injection.faults.into_iter().enumerate() {
            drop(world.arm(fault, format!("explored {number}")));
        }
        for fault in &injection.before_start {
            world.set_watch(fault);
        }
        steps = injection.steps;
    }
    let history = std::pin::pin!(history(&world, &length, fault.is_none(), test));
    let steps = std::pin::pin!(run_steps(&world, steps));
    let played = std::pin::pin!(async {
        match select(history, steps).await {
            Either::Left((explored, _)) => explored,
            Either::Right(((), history)) => history.await,
        }
    });
    let runs_away = std::pin::pin!(runs_away(&world, limit));
    match select(played, runs_away).await {
        Either::Left((explored, _)) => Ok(explored),
        Either::Right((text, _)) => Ok(ExploredWorld::ended(breach::ALIVE, text)),
    }
}

/// Rounds up to whole minutes, so that the end of a longer run has the same place between the slots of a schedule.
fn whole_minutes(duration: Duration) -> Duration {
    Duration::from_mins(duration.as_secs().div_ceil(60))
}

/// Waits until the transcript has more than `limit` entries, and describes what goes on: virtual time may pass for
/// ever while controllers answer each other.
async fn runs_away(world: &World, limit: usize) -> String {
    let transcript = world.server().transcript();
    loop {
        let changed = transcript.changed();
        if transcript.len() > limit {
            break;
        }
        changed.await;
    }
    let last = transcript.with(|entries| {
        let writes =
            crate::expect::requests(entries).rev().filter(|(entry, exchange)| is_subject_write(entry, exchange));
        let mut lines: Vec<String> =
            writes.take(LAST).map(|(entry, exchange)| format!("\n      {}", line(entry, exchange))).collect();
        lines.reverse();
        lines.concat()
    });
    format!(
        "the run was stopped after {limit} requests and changes, at {}: controllers answer each other without an end; \
         their last writes:{last}",
        crate::transcript::redact::at(world.elapsed())
    )
}

/// Runs the test up to its last advance.
async fn test_until(world: &World, last: Option<usize>, test: &impl AsyncFn(&World) -> Result) -> Result {
    let test = std::pin::pin!(world.guard(test(world)));
    let Some(last) = last else { return test.await };
    match select(test, world.advances.end_with(last)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Ok(()),
    }
}

/// Runs the test, lets the controllers converge, and starts them again. Without a fault, the object that the fault
/// deletes is deleted when they have converged.
async fn history(
    world: &World,
    length: &RunLength,
    is_reference: bool,
    test: &impl AsyncFn(&World) -> Result,
) -> ExploredWorld {
    let ended = |oracle, error: Error| ExploredWorld::ended(oracle, error.message().to_owned());
    if let Err(error) = test_until(world, length.last, test).await {
        let oracle = if world.shared.check().is_err() { breach::ALIVE } else { "test" };
        return ended(oracle, error);
    }
    let tested = world.server().transcript().len();
    if let Err(error) = world.advance_by(SETTLING.converge + length.extra).await {
        return ended(breach::ALIVE, error);
    }
    if let Some(target) = &length.deleted {
        if is_reference {
            // It may be gone.
            drop(world.delete(&target.to_string()).await);
        }
        if let Err(error) = world.advance_by(SETTLING.converge).await {
            return ended(breach::ALIVE, error);
        }
    }
    let converged = world.server().transcript().len();
    if let Err(error) = world.advance_by(SETTLING.quiet).await {
        return ended(breach::ALIVE, error);
    }
    let quiet = world.server().transcript().len();
    if let Err(error) = world.judge_rules() {
        return ended("rules", error);
    }
    world.shared.restart_all();
    if let Err(error) = world.advance_by(SETTLING.fresh).await {
        return ended(breach::ALIVE, error);
    }
    let resources = world.resources();
    let text = world.transcript().to_string();
    let can_crash = !world.shared.controllers.lock().is_empty();
    let deliveries = world.server().transcript().deliveries();
    let collects_garbage = world.collects_garbage.get();
    world.with_run(|run| {
        let entries = run.entries;
        let before = ObjectStates::new(run, NAMESPACE);
        let objects = changed_objects(&entries[..converged.min(entries.len())]);
        let initial = objects.keys().filter_map(|key| Some((key.clone(), before.get(key)?.clone()))).collect();
        ExploredWorld {
            ending: None,
            points: points(&entries[..converged.min(entries.len())], &resources, &[], is_lease_or_review),
            initial,
            objects,
            late: changes_by_controllers(entries, converged, quiet),
            fresh: changes_by_controllers(entries, quiet, entries.len()),
            created: created_by_controllers(&entries[..converged.min(entries.len())]),
            alone: judge_alone(run, quiet, &deliveries, collects_garbage),
            beginnings: world.advances.beginnings(&entries[..tested.min(entries.len())]),
            advances: world.advances.times(tested),
            custom: custom_objects(&before, entries),
            is_deleted: length.deleted.is_some(),
            length: entries.len(),
            can_crash,
            text,
        }
    })
}

/// Returns the requests from `begin` to `end` with which controllers changed objects, apart from Events.
fn changes_by_controllers(entries: &[TranscriptEntry], begin: usize, end: usize) -> Vec<String> {
    let window = entries.iter().filter(|entry| (begin..end).contains(&entry.seq));
    let requests = window.filter_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource != "events" && !invariants::is_idle(change) => change.request,
        _ => None,
    });
    let written = requests.filter_map(|seq| {
        let entry = entries.get(seq)?;
        let EntryKind::Request(exchange) = &entry.what else { return None };
        is_subject_write(entry, exchange).then(|| line(entry, exchange))
    });
    written.collect()
}

/// Returns the numbers of objects that controllers created, by resource, without those that exist for the record.
fn created_by_controllers(entries: &[TranscriptEntry]) -> BTreeMap<String, usize> {
    let mut created = BTreeMap::new();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && change.kind == ChangeKind::Added
            && is_compared(&change.resource)
            && entry.actor().is_subject()
        {
            *created.entry(change.resource.clone()).or_default() += 1;
        }
    }
    created
}

/// Makes the steps of a fault happen at their times.
async fn run_steps(world: &World, steps: Vec<(Duration, Vec<Action>)>) {
    for (at, actions) in steps {
        let wait = at.saturating_sub(world.elapsed());
        if !wait.is_zero() {
            world.server().clock().sleep(wait).await;
        }
        for action in actions {
            act(world, action).await;
        }
    }
}

async fn act(world: &World, action: Action) {
    match action {
        Action::Watch(fault) => world.set_watch(&fault),
        Action::Compact => world.compact(),
        Action::Fault(fault) => {
            let name = fault.name.clone().unwrap_or_default();
            drop(world.arm(fault, name));
        }
        Action::Heal(name) => _ = world.server().faults().clear(name.as_deref()),
        Action::Control(Control::Restart) => world.shared.restart_all(),
        Action::Request(request) => {
            if let Operation::Patch { body, .. } = &request.operation {
                // The object may be gone.
                drop(world.patch(&request.target.to_string(), body).await);
            }
        }
        Action::Interfere(Interference::Delete { target, .. }) => drop(world.delete(&target.to_string()).await),
        Action::Interfere(Interference::Hold { target, is_held }) => {
            let name = target.to_string();
            let found = world.object(&name).await.ok().flatten();
            if let Some(patch) = found.and_then(|object| hold_patch(&object, is_held)) {
                drop(world.patch(&name, &patch).await);
            }
        }
        _ => {}
    }
}

/// Returns the faults to try: of each kind of fault and request the first, then the last, then those between.
/// Controllers that the test spawned itself cannot crash.
fn plans(reference: &ExploredWorld) -> Vec<(Disturbance, FaultPoint)> {
    let mut plans = Vec::new();
    for point in &reference.points {
        let possible = |fault: &Disturbance| {
            fault.is(FaultTrait::IsForTests)
                && (reference.can_crash || !fault.is(FaultTrait::Restarts))
                && (!fault.is(FaultTrait::ChangesHistory) || can_be_deleted(&reference.custom, &point.target))
        };
        for disturbance in Disturbance::of_programs().filter(|fault| fault.suits(point)).filter(possible) {
            let target = &point.target;
            let subresource = target.subresource.as_deref().unwrap_or_default();
            let class = format!("{:?} {} {subresource} {disturbance}", point.site, target.resource.plural);
            plans.push((class, (disturbance, point.clone())));
        }
    }
    in_turns(plans)
}

/// Returns the first state of an object that one of two runs changes.
fn initial_of(reference: &ExploredWorld, explored: &ExploredWorld) -> impl Fn(&Key) -> Option<RecordedJson> {
    |key| reference.initial.get(key).or_else(|| explored.initial.get(key)).cloned()
}

/// Returns the breaches of a run with a fault.
fn judge(ComparedWorlds { reference, explored }: &ComparedWorlds<'_>) -> Vec<Breach> {
    if let Some(breach) = &explored.ending {
        return vec![breach.clone()];
    }
    let mut all =
        differences(initial_of(reference, explored), &by_part(&reference.objects), &by_part(&explored.objects));
    // What is made for an object is not made if the object goes before.
    all.retain(|difference| !explored.is_deleted || difference.kind != MISSING);
    let mut breaches: Vec<Breach> = all.into_iter().map(|found| found.into_breach(Duration::ZERO, NAMESPACE)).collect();
    let is_known = |breach: &Breach| reference.alone.iter().any(|known| known.fingerprint() == breach.fingerprint());
    // What is left shows in the end state, too.
    let alone = explored.alone.iter().filter(|breach| breach.oracle != LEFT || breaches.is_empty());
    let alone: Vec<Breach> = alone.filter(|breach| !is_known(breach)).cloned().collect();
    breaches.extend(alone);
    if breaches.is_empty() && !explored.is_deleted {
        let more = |(resource, count): (&String, &usize)| {
            let usual = reference.created.get(resource).copied().unwrap_or_default();
            (*count > usual).then(|| {
                let text = format!("{count} {resource} were created; without the fault {usual} are");
                Breach { resource: resource.clone(), ..Breach::of_run(CREATIONS, "", Duration::ZERO, text) }
            })
        };
        breaches.extend(explored.created.iter().filter_map(more));
    }
    if let (true, Some(first)) = (reference.late.is_empty(), explored.late.first()) {
        breaches.push(Breach::of_run(breach::QUIET, "", Duration::ZERO, breach::converged_text(first)));
    }
    if let (true, Some(first)) = (reference.fresh.is_empty(), explored.fresh.first()) {
        breaches.push(Breach::of_run(breach::FRESH, "", Duration::ZERO, breach::restarted_text(first)));
    }
    breaches
}

fn described(findings: &Findings, summary: &ExploreSummary) -> String {
    let mut text = format!("{} findings with {summary}", findings.len());
    let list = findings.list();
    let mut all: Vec<_> = list.iter().zip(findings.simplest()).collect();
    // Those that explain most come first.
    all.sort_by_key(|(finding, _)| std::cmp::Reverse(finding.runs));
    for (finding, (plan, _)) in all.into_iter().take(SHOWN_FINDINGS) {
        let fingerprint = &finding.fingerprint;
        let runs = finding.runs;
        let _ = write!(text, "\n✗ {fingerprint} ({runs} runs)\n    {}", finding.breach);
        let faults = plan.token().faults_text();
        let hidden = if plan.fixture.is_empty() { "" } else { "before a later step of the test hides it; " };
        let repeated = if plan.faults.is_empty() {
            "it happens without any fault".to_owned()
        } else {
            format!("{hidden}repeat it with Explorer::new().replay(\"{faults}{}\", test)", plan.fixture)
        };
        let _ = write!(text, "\n    {repeated}");
    }
    let hidden = findings.len().saturating_sub(SHOWN_FINDINGS);
    if hidden > 0 {
        let _ = write!(text, "\n… and {hidden} more");
    }
    text
}

/// Says something past the test program, which hides the output of tests that pass.
fn say(text: &str) {
    let thread = std::thread::current();
    let test = thread.name().map_or_else(String::new, |name| format!("{name}: "));
    // Without standard error there is no reader.
    let _ = std::io::stderr().write_all(format!("plumbline: {test}{text}\n").as_bytes());
}

#[expect(clippy::print_stderr, reason = "test programs show it with the failure of the test")]
fn print(text: &str) {
    eprintln!("transcript of the world:\n{text}");
}

impl World {
    /// Explores `test` with the budget of [`Explorer::new`]; see [`Explorer::explore`].
    ///
    /// # Errors
    ///
    /// As [`Explorer::explore`].
    #[track_caller]
    pub fn explore(test: impl AsyncFn(&Self) -> Result + Sync) -> Result<ExploreSummary> {
        Explorer::new().explore(test)
    }

    fn set_watch(&self, fault: &crate::fixture::WatchFault) {
        if let Some(note) = set_watch_fault(self.server().faults(), self.server().revision(), fault) {
            self.note(&note);
        }
    }
}

impl WorldState {
    /// Kills all running controllers and starts them again.
    fn restart_all(self: &Arc<Self>) {
        let names: Vec<String> = self.controllers.lock().keys().cloned().collect();
        for name in names {
            if self.crash(&name, &format!("{name} crashes and starts again")).is_ok() {
                drop(self.start(&name));
            }
        }
    }
}

pub(super) mod advances;
mod alone;
mod beginnings;
mod deletions;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
