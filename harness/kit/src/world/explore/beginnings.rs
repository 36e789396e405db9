//! The beginnings of a test: the test up to a step that follows an advance. The next step of a test may hide what a
//! fault led to, so a run whose objects differ before a step is repeated without that step and the later ones, and with
//! the time to converge instead.

use std::collections::BTreeMap;
use std::time::Duration;

use super::advances::Beginning;
use super::{ComparedWorlds, initial_of};
use crate::explore::faults::Disturbance;
use crate::explore::faults::point::FaultPoint;
use crate::explore::state::{by_part, differences};
use crate::world::resources::NAMESPACE;

/// Number of runs without a step for each kind of difference before it, fault and request.
const TRIES: u32 = 3;

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
