//! The advances of a test, and the objects before each step that follows one.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::channel::oneshot;

use crate::explore::state::{ChangedObjects, changed_objects};
use crate::transcript::{Actor, Attributed as _, EntryKind, TranscriptEntry};

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
    pub(super) number: usize,
    /// The objects that have changed until then.
    pub(super) objects: ChangedObjects,
}
