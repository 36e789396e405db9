//! The command and the settings of a guest.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

/// The time of day with which a guest begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Epoch {
    /// The real time at the start, in whole seconds.
    #[default]
    Now,
    /// A fixed time. The monotonic clocks begin with a fixed value as well, so that runs are alike.
    Fixed(Timestamp),
}

/// A time of day that a guest cannot begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{time} is no time of day for programs, whose clocks count nanoseconds since 1970: use one from 1970 to 2499")]
pub struct EpochError {
    /// The time.
    pub time: Timestamp,
}

/// The first second of the year 2500. The nanoseconds of clocks end 54 years later.
const LATEST: i64 = 16_725_225_600;

impl Epoch {
    /// Returns the epoch with this time, if clocks can show it and the centuries after it.
    pub fn fixed(time: Timestamp) -> Result<Self, EpochError> {
        if (0..LATEST).contains(&time.as_second()) { Ok(Self::Fixed(time)) } else { Err(EpochError { time }) }
    }
}

/// The network of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// A network namespace of its own with nothing but a loopback device, where that is permitted; else the report
    /// has a warning. Peers outside live in real time: while a program waits for one, virtual time flows.
    #[default]
    Private,
    /// The network of the calling process.
    Shared,
}

/// A standard stream of a guest's command.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Stdio {
    /// That of the calling process.
    #[default]
    Inherit,
    /// Nothing: `/dev/null`.
    Null,
    /// A file or one end of a pipe.
    File(OwnedFd),
}

impl From<File> for Stdio {
    fn from(file: File) -> Self {
        Self::File(file.into())
    }
}

impl From<io::PipeReader> for Stdio {
    fn from(pipe: io::PipeReader) -> Self {
        Self::File(pipe.into())
    }
}

impl From<io::PipeWriter> for Stdio {
    fn from(pipe: io::PipeWriter) -> Self {
        Self::File(pipe.into())
    }
}

/// A command and its surroundings.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(OsString, Option<OsString>)>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) standard: [Stdio; 3],
}

/// The settings of the tracer.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) epoch: Epoch,
    pub(crate) seed: Option<u64>,
    pub(crate) network: Network,
    pub(crate) is_manual: bool,
    pub(crate) has_own_clock: bool,
    pub(crate) virtual_limit: Option<Duration>,
    pub(crate) real_limit: Option<Duration>,
    pub(crate) process_limit: usize,
    pub(crate) spin: Duration,
    pub(crate) grace: Duration,
    pub(crate) is_disturbed: bool,
}
