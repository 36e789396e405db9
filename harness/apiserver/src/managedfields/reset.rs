//! Fields that an endpoint never changes and that no writer owns through it: `GetResetFields` of upstream's strategies.
//! See `pkg/registry/GROUP/KIND/strategy.go`.

use super::set::FieldSet;

/// The reset fields of a resource's endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResetFields(Vec<(&'static str, FieldSet)>);

impl ResetFields {
    /// Sets the paths of an endpoint's reset fields; `subresource` is empty for the object itself.
    pub(crate) fn set(&mut self, subresource: &'static str, paths: &[&[&str]]) {
        self.0.retain(|(endpoint, _)| *endpoint != subresource);
        self.0.push((subresource, FieldSet::of_fields(paths)));
    }

    /// Returns the reset fields of an endpoint, if it has any.
    pub(crate) fn of(&self, subresource: &str) -> Option<&FieldSet> {
        self.0.iter().find(|(endpoint, _)| *endpoint == subresource).map(|(_, fields)| fields)
    }
}
