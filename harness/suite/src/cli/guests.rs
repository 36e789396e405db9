//! The command line of processes of this program that run fixtures in virtual time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::CliError;
use crate::process::tempdir::RunDir;
use crate::runner::guests::{FixtureGuests, GuestCommand};

/// The hidden verb: `__fixtures FLAGS`.
pub(super) const VERB: &str = "__fixtures";

/// Fixtures that run in other processes.
#[derive(Debug, Default)]
pub(super) struct FixturesApart<'a> {
    /// Flags that select their cluster and subject, quoted as for a shell.
    pub(super) flags: &'a str,
    /// Contents of files of fixtures that are not on disk.
    pub(super) texts: BTreeMap<PathBuf, String>,
}

impl FixturesApart<'_> {
    /// Prepares the processes. They draw from `seed`.
    pub(super) fn guests(self, run: &RunDir, seed: Option<u64>) -> Result<Arc<FixtureGuests>, CliError> {
        let program = std::env::current_exe()
            .map_err(|error| CliError::Environment(format!("the file of this program: {error}; use --time wall")))?;
        let words = shell_words::split(self.flags).map_err(CliError::environment)?;
        let verb = [VERB.to_owned()];
        let seed = seed.map(|seed| format!("--seed={seed}"));
        // The last one counts.
        let arguments = verb.into_iter().chain(words).chain(seed).map(OsString::from).collect();
        let logs = run.logs().to_owned();
        let temporary = run.root().map_or_else(std::env::temp_dir, ToOwned::to_owned);
        Ok(FixtureGuests::new(GuestCommand { program, arguments, logs, temporary }, self.texts))
    }
}
