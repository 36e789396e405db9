//! No subject: fixtures about the API server alone.

use std::collections::BTreeSet;

use plumbline::fixture::{Capability, Controller};

use super::{Identity, Launch, Running, Subject, SubjectError};

/// No implementation runs; only the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSubject;

impl Subject for NoSubject {
    fn name(&self) -> &'static str {
        "none"
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        Ok(Identity { kind: "none", what: "none: the API server alone".to_owned(), ..Identity::default() })
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

    fn launch(&self, _: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        Err(SubjectError::NotStarted("there is no subject to launch".to_owned()))
    }
}
