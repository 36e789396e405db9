//! The beginnings of a test: the test up to a step that follows an advance. The next step of a test may hide what a
//! fault led to, so a run whose objects differ before a step is repeated without that step and the later ones, and with
//! the time to converge instead.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures::channel::oneshot;

use super::{ComparedWorlds, initial_of};
use crate::explore::faults::Disturbance;
use crate::explore::faults::point::FaultPoint;
use crate::explore::state::{ChangedObjects, by_part, changed_objects, differences};
use crate::transcript::{Actor, Attributed as _, EntryKind, TranscriptEntry};
use crate::world::objects::NAMESPACE;

/// Number of runs without a step for each kind of difference before it, fault and request.
const TRIES: u32 = 3;
/// Most beginnings of a test.
const MOST: usize = 64;

/// The advances of a test.
#[derive(Default)]
pub(in crate::world) struct Advances {
    /// The length of the transcript at the end of each, and its time.
    ends: RefCell<Vec<(usize, Duration)>>,
    /// The number of the advance with which the test ends, and the one who waits for that.
    last: Cell<Option<(usize, oneshot::Sender<()>)>>,
}

impl Advances {
    /// Notes that an advance has ended. If the test is to end there, this does not return.
    pub(in crate::world) async fn ended(&self, length: usize, at: Duration) {
        let number = {
            let mut ends = self.ends.borrow_mut();
            ends.push((length, at));
            ends.len()
        };
        match self.last.take() {
            Some((last, reached)) if last == number => {
                // The receiver may be gone.
                _ = reached.send(());
                std::future::pending::<()>().await;
            }
            later => self.last.set(later),
        }
    }

    /// Lets the test end with this advance, and returns what is ready then.
    pub(super) fn end_with(&self, number: usize) -> oneshot::Receiver<()> {
        let (reached, end) = oneshot::channel();
        self.last.set(Some((number, reached)));
        end
    }

    /// Returns the times at which the advances of the test end, whose transcript has this length.
    pub(super) fn times(&self, length: usize) -> Vec<Duration> {
        self.ends.borrow().iter().take_while(|(end, _)| *end <= length).map(|(_, at)| *at).collect()
    }

    /// Returns the objects before each step of the test that changes something and follows an advance. The entries are
    /// those of the test alone.
    pub(super) fn beginnings(&self, entries: &[TranscriptEntry]) -> Vec<Beginning> {
        let ends: Vec<usize> =
            self.ends.borrow().iter().map(|(end, _)| *end).filter(|end| *end <= entries.len()).collect();
        let is_step =
            |entry: &TranscriptEntry| matches!(&entry.what, EntryKind::Change(_)) && entry.actor() == Actor::User;
        let next = |number: usize| ends.get(number).copied().unwrap_or(entries.len());
        let followed =
            ends.iter().enumerate().filter(|(index, end)| entries[**end..next(index + 1)].iter().any(is_step));
        let beginning =
            |(index, end): (usize, &usize)| Beginning { number: index + 1, objects: changed_objects(&entries[..*end]) };
        followed.map(beginning).take(MOST).collect()
    }
}

/// The test up to a step.
pub(super) struct Beginning {
    /// The number of the advance before the step, from 1.
    number: usize,
    /// The objects that have changed until then.
    objects: ChangedObjects,
}

/// The beginnings that were explored.
#[derive(Default)]
pub(super) struct TriedBeginnings(BTreeMap<String, u32>);

impl TriedBeginnings {
    /// Returns the first beginning at whose end the objects are not those of the run without the fault, unless enough
    /// of that kind were tried. Steps that come while controllers have not recovered may make another end right.
    pub(super) fn next(
        &mut self,
        ComparedWorlds { reference, explored }: &ComparedWorlds<'_>,
        (disturbance, point): (Disturbance, &FaultPoint),
    ) -> Option<usize> {
        let difference = |found: &Beginning| {
            let wanted = reference.beginnings.iter().find(|wanted| wanted.number == found.number)?;
            let initial = initial_of(reference, explored);
            let first = differences(initial, &by_part(&wanted.objects), &by_part(&found.objects)).into_iter().next()?;
            Some((found.number, first.into_breach(Duration::ZERO, NAMESPACE).fingerprint()))
        };
        let (number, kind) = explored.beginnings.iter().find_map(difference)?;
        let request = format!("{:?} {}", point.site, point.target.resource.plural);
        let tries = self.0.entry(format!("{disturbance} {request} {number} {kind}")).or_default();
        *tries += 1;
        (*tries <= TRIES).then_some(number)
    }
}
