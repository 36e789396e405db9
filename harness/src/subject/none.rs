//! No subject: fixtures about the API server alone.

use std::collections::BTreeSet;

use super::{Launch, Running, Subject};
use crate::fixture::{Capability, Controller};

/// Nothing runs beside the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSubject;

impl Subject for NoSubject {
    fn name(&self) -> &str {
        "none"
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        BTreeSet::new()
    }

    fn features(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        BTreeSet::new()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn launch(&self, _: &Launch<'_>) -> Result<Box<dyn Running>, String> {
        Err("there is no subject to launch".to_owned())
    }
}
