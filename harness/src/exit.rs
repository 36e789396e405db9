//! Exit codes of `plumbline`: documented API, shown by `plumbline help`, tested in `tests/cli.rs`.

/// How a run of the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything that ran is as promised.
    Ok,
    /// A bug in plumbline itself.
    Bug,
    /// Wrong command line (clap's own code).
    Usage,
    /// Fixtures that cannot be read or make no sense; nothing ran.
    BadFixtures,
    /// The filters select no fixture, or every selected one was skipped.
    NothingSelected,
    /// A document says what is not so: a conformance report does not verify, a known deviation is none, the catalogue has a gap.
    Refuted,
    /// The surroundings do not work: no fixtures folder, unwritable output, no port, no runtime; or a signal broke the run off.
    Environment,
    /// At least one fixture failed, or a profile is not conformant.
    FixturesFailed,
    /// Two subjects differ.
    Differ,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Bug => 1,
            Self::Usage => 2,
            Self::BadFixtures => 3,
            Self::NothingSelected => 4,
            Self::Refuted => 5,
            Self::Environment => 96,
            Self::FixturesFailed => 100,
            Self::Differ => 101,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// The table in `plumbline --help`.
pub const HELP: &str = "\
Exit codes:
  0    everything that ran is as promised
  1    a bug in plumbline
  2    wrong command line
  3    bad fixtures: nothing ran
  4    nothing selected, or everything selected was skipped
  5    a document says what is not so (a report that does not verify, a known deviation that is none, a gap in the catalogue)
  96   the environment does not work (no fixtures folder, unwritable output, …), or a signal broke the run off
  100  fixtures failed, or a profile is not conformant
  101  the two subjects of compare differ";
