//! Failures of a served world.

use plumbline_apiserver::SeedError;

use super::fault_rules::UnfitRule;
use super::state;
use crate::subject::SubjectError;

/// Failures of a world, and requests to it that make no sense.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A world has no thread.
    #[error("unable to start the thread of a world: {0}")]
    Thread(std::io::Error),
    /// The thread of a world ended before the world was ready.
    #[error("the thread of a world ended at its start")]
    EndedAtStart,
    /// A world ended.
    #[error(
        "the world ended; standard error of `plumbline serve` has the reason: delete the world and create it again"
    )]
    Ended,
    /// A controller loop ended.
    #[error("a controller loop ended: {0}")]
    Loop(tokio::task::JoinError),
    /// The controllers ended.
    #[error("the controllers ended: {0}")]
    Controllers(String),
    /// The controllers refuse to start.
    #[error(transparent)]
    Launch(#[from] SubjectError),
    /// The thread of the controllers does not start, or the controllers refuse to.
    #[error("unable to start the controllers: {0}")]
    NotStarted(String),
    /// The first world was started before.
    #[error("the first world runs already")]
    RunsAlready,
    /// A step of the clock without a length.
    #[error("advance must be longer than zero; GET reads the clock")]
    NoAdvance,
    /// A step of the clock that is too long.
    #[error("advance is longer than 366 days; send several requests")]
    AdvanceTooLong,
    /// The clock moves by itself.
    #[error(
        "this clock shows the time of the machine; start `plumbline serve` with --clock manual, or run everything with \
         `plumbline test`"
    )]
    ClockOfMachine,
    /// The clock of the virtual time around this process does not answer.
    #[error("{0}")]
    ClockOfGuest(plumbline_guest::ClockError),
    /// An object cannot be written as JSON.
    #[error("{key}: {error}")]
    NotSaved {
        /// The object.
        key: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// A saved state of another version.
    #[error("apiVersion is {0:?}; this program reads {expected:?}", expected = state::API_VERSION)]
    ApiVersion(String),
    /// A document that is no saved state.
    #[error("kind is {0:?}, not {expected:?}", expected = state::KIND)]
    Kind(String),
    /// The server refuses an object of a saved state.
    #[error("{kind} {name:?}: {error}")]
    NotRestored {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The reason.
        error: SeedError,
    },
    /// The server refuses an object that exists at the start.
    #[error("seed objects: {0}")]
    Seed(SeedError),
    /// The server refuses one of its default objects.
    #[error("default objects: {0}")]
    DefaultObjects(SeedError),
    /// A fault rule that the server cannot have.
    #[error(transparent)]
    Rule(#[from] UnfitRule),
}
