//! The command line of processes of this program that run fixtures in virtual time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plumbline_guest::Outcome;

use super::error::CliError;
use super::streams::notify_all;
use crate::guest;
use crate::process::tempdir::RunDir;
use crate::runner::guests::{FixtureGuests, GuestCommand};

/// The hidden verb: `__fixtures FLAGS`.
pub(super) const VERB: &str = "__fixtures";

/// The flag of the seed.
const SEED: &str = "--seed";

/// Returns `flags` with a seed, so that another run draws the same, unless they have one.
pub(super) fn with_seed(flags: &str, seed: Option<u64>) -> String {
    let has_one = || shell_words::split(flags).unwrap_or_default().iter().any(|word| word.starts_with(SEED));
    match seed {
        Some(seed) if !has_one() => format!("{flags} {SEED} {seed}"),
        _ => flags.to_owned(),
    }
}

/// Fixtures that run in other processes.
#[derive(Debug, Default)]
pub(super) struct FixturesApart<'a> {
    /// Flags that select their cluster and subject, quoted as for a shell.
    pub(super) flags: &'a str,
    /// Contents of files of fixtures that are not on disk.
    pub(super) texts: BTreeMap<PathBuf, String>,
}

impl FixturesApart<'_> {
    /// Prepares the processes. They draw from `seed`, and each fixture has this limit of real time.
    pub(super) fn guests(
        self,
        run: &RunDir,
        seed: Option<u64>,
        limit: Duration,
    ) -> Result<Arc<FixtureGuests>, CliError> {
        let program = guest::program().map_err(CliError::environment)?;
        let words = shell_words::split(&with_seed(self.flags, seed)).map_err(CliError::environment)?;
        let arguments = [VERB.to_owned()].into_iter().chain(words).map(OsString::from).collect();
        let logs = run.logs().to_owned();
        let temporary = run.root().map_or_else(std::env::temp_dir, ToOwned::to_owned);
        let command = GuestCommand { program, arguments, logs, temporary, limit };
        Ok(FixtureGuests::new(command, self.texts))
    }
}

/// Writes the account of a guest's time to standard error, and returns its exit code.
pub(super) fn report_guest(outcome: &Outcome) -> u8 {
    notify_all(outcome);
    outcome.exit_code()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("--http", None, "--http")]
    #[case::added("--http", Some(7), "--http --seed 7")]
    #[case::given("--seed 5 --http", Some(7), "--seed 5 --http")]
    #[case::given_with_a_sign("--seed=5", Some(7), "--seed=5")]
    #[case::of_the_command("--command './me --seed 5'", Some(7), "--command './me --seed 5' --seed 7")]
    fn flags_have_one_seed(#[case] flags: &str, #[case] seed: Option<u64>, #[case] expected: &str) {
        assert_eq!(with_seed(flags, seed), expected);
    }
}
