//! Files that are rotated, such as certificates: reread periodically and compared with their previous content.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::clock::Clock;

/// Interval at which files are reread.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// The error of a file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("unable to read {}: {source}", path.display())]
pub struct FileReadError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    source: io::Error,
}

/// A set of files and their content at the last read, valid or not.
#[derive(Debug, Default)]
pub struct WatchedFiles {
    paths: Vec<PathBuf>,
    content: Vec<Vec<u8>>,
    /// Time of the last read, on the monotonic clock.
    read_at: Duration,
}

impl WatchedFiles {
    /// Reads the files.
    pub fn read(paths: Vec<PathBuf>, clock: &Clock) -> Result<Self, FileReadError> {
        Ok(Self { content: read_all(&paths)?, paths, read_at: clock.monotonic() })
    }

    /// Returns the contents in the order of the paths.
    pub fn content(&self) -> &[Vec<u8>] {
        &self.content
    }

    /// Rereads the files if [`RELOAD_PERIOD`] has passed; returns true if their content changed. Files that cannot be
    /// read leave the content unchanged.
    pub fn reload_if_changed(&mut self, clock: &Clock) -> bool {
        let now = clock.monotonic();
        if self.paths.is_empty() || now.saturating_sub(self.read_at) < RELOAD_PERIOD {
            return false;
        }
        self.read_at = now;
        match read_all(&self.paths) {
            Ok(content) if content != self.content => {
                self.content = content;
                true
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "using the previous content");
                false
            }
        }
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, FileReadError> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|source| FileReadError { path: path.clone(), source });
    paths.iter().map(read).collect()
}
