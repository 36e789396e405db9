//! [`Error`]: any failure of a test, with the place in its source.

use std::fmt;
use std::panic::Location;

/// The result of a test and of the methods of a [`World`](super::World).
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// A failure, with the place in the test where it was noticed.
///
/// It is made from any error by `?`, so that a test can use kube's errors and its own. Its `Debug` form, which test
/// programs print, is the text of its `Display` form.
///
/// ```
/// fn parse() -> plumbline::Result<u8> {
///     Ok("x".parse::<u8>()?)
/// }
/// assert!(format!("{:?}", parse().unwrap_err()).starts_with("invalid digit found in string\n  at "));
/// ```
pub struct Error {
    message: String,
    place: Option<&'static Location<'static>>,
}

impl Error {
    /// Creates an error.
    #[must_use]
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: Some(Location::caller()) }
    }

    /// Replaces the place.
    #[must_use]
    pub(crate) fn at(self, place: &'static Location<'static>) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Returns the message without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self { message, place: Some(Location::caller()) }
    }
}

impl From<Error> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: Error) -> Self {
        error.to_string().into()
    }
}

impl From<Error> for Box<dyn std::error::Error> {
    fn from(error: Error) -> Self {
        error.to_string().into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.place.map_or(Ok(()), |place| write!(f, "\n  at {}:{}:{}", place.file(), place.line(), place.column()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
