//! Values of flags that clap cannot read itself.

/// A value that a flag does not take. The text names the form that it takes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    /// Creates an error with a text that names the form.
    pub(super) fn new(form: impl Into<String>) -> Self {
        Self(form.into())
    }
}
