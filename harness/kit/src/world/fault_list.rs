//! The faults of a world that were armed and not healed.

use std::cell::RefCell;

use super::error::{Error, Result};
use crate::faults::ArmedFault;

/// The faults of a world that were armed and not healed, by name.
#[derive(Debug, Default)]
pub(super) struct FaultList(pub(super) RefCell<Vec<(String, ArmedFault)>>);

impl FaultList {
    /// Returns an error if a fault has met no request: its pattern is probably wrong.
    pub(super) fn check_met(&self) -> Result {
        let armed = self.0.borrow();
        let Some((_, idle)) = armed.iter().find(|(_, armed)| armed.is_idle()) else { return Ok(()) };
        Err(Error::new(format!(
            "the fault `{}` has affected no request: correct its pattern, or heal it. Patterns name objects in the \
             namespace `default`; `*:pods/a` names those in any namespace",
            idle.on
        )))
    }
}
