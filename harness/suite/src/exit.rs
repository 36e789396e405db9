//! Exit codes of `plumbline`: documented API, shown by `plumbline help`, tested in `tests/it/cli.rs`.

/// Outcomes of a run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything that ran behaved as promised.
    Ok,
    /// A bug in plumbline itself.
    Bug,
    /// Wrong command line (clap's own code), or a misspelt verb.
    Usage,
    /// Fixtures that cannot be read or are invalid; nothing ran.
    BadFixtures,
    /// A filter selects no fixture, or every selected fixture was skipped.
    NothingSelected,
    /// Verification failed: a report, a deviations file or the catalogue is inconsistent.
    Refuted,
    /// The environment failed (no fixtures folder, unwritable output, no free port, no runtime), or a signal
    /// interrupted the run.
    Environment,
    /// At least one fixture failed, or a profile is not conformant.
    FixturesFailed,
    /// Two subjects differ, a replay came out differently, or a test of Kubernetes failed in a new way.
    Differ,
    /// Nothing failed, but the machine was too busy to judge some fixtures, or an exploration had hardly begun.
    Inconclusive,
}

impl Exit {
    /// Returns the exit code.
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
            Self::Inconclusive => 102,
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
  0    everything that ran behaved as promised
  1    a bug in plumbline
  2    wrong command line, or a misspelt verb
  3    invalid fixtures; nothing ran
  4    a filter selects no fixture, or every selected fixture was skipped
  5    verification failed: a report or deviations file is inconsistent
  96   environment failure (no fixtures folder, unwritable output, …) or interrupted by a signal
  100  fixtures failed, a profile is not conformant, or explore has findings
  101  the two subjects of compare differ, or a replay came out differently
  102  nothing failed, but some fixtures are inconclusive (the machine was too busy), or explore
       tried less than a tenth of its plans";
