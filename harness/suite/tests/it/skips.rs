//! Skipping tests with a reason that CI counts.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that the calling test does not run, and why.
///
/// The reason is also appended to the file named by `PLUMBLINE_SKIPS`: `.ci/run` fails if it holds one that is not
/// expected.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {test}: {reason}");
    if let Some(file) = std::env::var_os("PLUMBLINE_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| writeln!(file, "{test}: {reason}")).expect("PLUMBLINE_SKIPS names a writable file");
    }
}
