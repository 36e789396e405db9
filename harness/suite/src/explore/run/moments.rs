//! The circumstances of the points of a run, which show plans whose runs are equal. Pure.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::expect::is_subject_write;
use plumbline::expect::world::ObjectStates;
use plumbline::explore::faults::point::{FaultPoint, Site};
use plumbline::transcript::{Actor, Attributed, EntryKind, TranscriptEntry};

/// The circumstances of a point in the run without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The sender of a request.
    pub sender: Option<Actor>,
    /// Number of changes of objects, and of writes of the subject, before the point.
    pub before: usize,
    /// The same after the request took effect.
    pub after: usize,
}

/// Returns the circumstances of each point of a run.
#[must_use]
pub fn moments(entries: &[TranscriptEntry], points: &[FaultPoint]) -> Vec<Moment> {
    let mut count = 0;
    let mut before = Vec::with_capacity(entries.len());
    let mut after = BTreeMap::new();
    for entry in entries {
        before.push(count);
        match &entry.what {
            EntryKind::Request(exchange) if is_subject_write(entry, exchange) => {
                count += 1;
                after.insert(entry.seq, count);
            }
            EntryKind::Change(change) => {
                count += 1;
                after.extend(change.request.map(|request| (request, count)));
            }
            _ => {}
        }
    }
    let moment = |point: &FaultPoint| {
        let before = before.get(point.seq).copied().unwrap_or(count);
        let is_request = matches!(point.site, Site::Request(_));
        let sender = entries.get(point.seq).filter(|_| is_request).map(Attributed::actor);
        Moment { sender, before, after: after.get(&point.seq).copied().unwrap_or(before) }
    };
    points.iter().map(moment).collect()
}

/// Returns an upper bound of the number of objects that exist at the same time, for each resource of the points.
#[must_use]
pub fn populations(
    begin: &ObjectStates,
    entries: &[TranscriptEntry],
    points: &[FaultPoint],
) -> BTreeMap<String, usize> {
    let resources: BTreeSet<&str> = points.iter().map(|point| &*point.target.resource.plural).collect();
    let mut counts: BTreeMap<String, usize> =
        resources.into_iter().map(|resource| (resource.to_owned(), begin.all(resource).count())).collect();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && change.old.is_none()
            && let Some(count) = counts.get_mut(&change.resource)
        {
            *count += 1;
        }
    }
    counts
}
