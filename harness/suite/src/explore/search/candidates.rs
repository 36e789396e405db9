//! The plans of an exploration, in the order in which they are tried. Pure.
//!
//! The order depends on the seed alone. Plans of rare kinds come first: the first plan of each class (suite, request,
//! fault), then the second of each, and so on.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::{FaultPoint, Site};
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::explore::schedule::in_turns;

use super::equal::MetPlans;
use super::options::{ExploreOptions, Strategy};
use crate::explore::histories::beginnings::is_beginning;
use crate::explore::histories::facts::{controls_subject, disturbs_watches, first_outage, has_faults};
use crate::explore::run::explored::ReferenceRun;

/// Number of random orders of each depth for each fixture.
const ORDERS: u32 = 3;

/// A fault at a point, by their places in the tables of the exploration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) reference: usize,
    point: usize,
    disturbance: Disturbance,
    /// True if pairs are to be tried that begin with this fault.
    pub(super) pairs: bool,
    /// The seed of a fault that concerns the whole run.
    seed: Option<u32>,
}

impl Candidate {
    /// Returns the plan of the first fault alone.
    pub(super) fn plan(&self, reference: &ReferenceRun) -> FaultPlan {
        let point = self.seed.map_or_else(|| reference.points[self.point].clone(), FaultPoint::of_run);
        FaultPlan { fixture: reference.fixture.id.clone(), faults: vec![(self.disturbance, point)] }
    }
}

/// Returns the orders of simultaneous work to try: all fixtures with the first seed, then with the next.
fn orders(references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> Vec<Candidate> {
    let part = options.shard.0.saturating_sub(1);
    let parts = options.shard.1.max(1);
    let mut all = Vec::new();
    for number in 0..ORDERS {
        let seed = u32::try_from(options.seed).unwrap_or_default().wrapping_mul(ORDERS).wrapping_add(number + 1).max(1);
        for disturbance in Disturbance::all().filter(|disturbance| disturbance.is(FaultTrait::Reorders)) {
            let whole = references.iter().enumerate().filter(|(_, found)| !is_beginning(&found.fixture.id));
            let mine = whole.filter(|(index, _)| *index as u64 % parts == part);
            all.extend(mine.map(|(reference, _)| Candidate {
                reference,
                point: 0,
                disturbance,
                pairs: false,
                seed: Some(seed),
            }));
        }
    }
    all
}

/// Returns the plans of the strategy; `single` are the single faults.
fn of_strategy(single: Vec<Candidate>, references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> Vec<Candidate> {
    let paired = |single: &[Candidate]| -> Vec<Candidate> {
        single.iter().map(|candidate| Candidate { pairs: true, ..*candidate }).collect()
    };
    match options.strategy {
        Strategy::Single => single,
        Strategy::Order => orders(references, options),
        Strategy::Random => Vec::new(),
        Strategy::Pairs => paired(&single),
        Strategy::All => {
            let pairs = paired(&single);
            single.into_iter().chain(orders(references, options)).chain(pairs).collect()
        }
    }
}

/// Returns the single faults of all reference runs in the order in which they are tried.
pub(super) fn candidates(references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> (Vec<Candidate>, usize) {
    let mut all: Vec<(u64, String, Candidate)> = Vec::new();
    let mut left_out = 0;
    for (index, reference) in references.iter().enumerate() {
        let controls = controls_subject(&reference.fixture);
        let watches = disturbs_watches(&reference.fixture);
        // A partition or a flaky server spreads what the fixture's own faults concern over the back-off.
        let faults = has_faults(&reference.fixture);
        // Requests that an outage drops are not counted by faults.
        let outage = first_outage(&reference.fixture);
        let mut moments = BTreeSet::new();
        let mut met = MetPlans::default();
        // The whole fixture has the same points before the last step of a beginning.
        let from = if is_beginning(&reference.fixture.id) { reference.fixture.end() } else { Duration::ZERO };
        for (place, point) in reference.points.iter().enumerate().filter(|(_, point)| point.at >= from) {
            let event = point.site == Site::Event;
            // Events of one resource at one moment are held, closed and lost together.
            if !event && outage.is_some_and(|from| point.at >= from) {
                continue;
            }
            if event && (watches || !moments.insert((point.target.resource.plural.clone(), point.at))) {
                continue;
            }
            for disturbance in Disturbance::at(point) {
                let cut_off = disturbance.cut_off().is_some() || disturbance.refusals() > 0;
                if (controls && disturbance.is(FaultTrait::ControlsSubject))
                    || (cut_off && (faults || watches))
                    || (disturbance.is(FaultTrait::ConcernsLeader) && !reference.elects)
                    || !met.is_new(reference, place, disturbance)
                {
                    continue;
                }
                let mut hasher = DefaultHasher::new();
                (options.seed, &reference.fixture.id, place, disturbance.to_string()).hash(&mut hasher);
                let hash = hasher.finish();
                if hash % options.shard.1.max(1) != options.shard.0.saturating_sub(1) {
                    continue;
                }
                let target = &point.target;
                let subresource = target.subresource.as_deref().unwrap_or_default();
                let suite = &reference.fixture.suite;
                let plural = &target.resource.plural;
                let class = format!("{suite} {:?} {plural} {subresource} {disturbance}", point.site);
                all.push((
                    hash,
                    class,
                    Candidate { reference: index, point: place, disturbance, pairs: false, seed: None },
                ));
            }
        }
        left_out += met.left_out();
    }
    all.sort_by_key(|entry| entry.0);
    let single = in_turns(all.into_iter().map(|(_, class, candidate)| (class, candidate)));
    (of_strategy(single, references, options), left_out)
}
