//! Files that others write anew, such as certificates: read now and then, compared with what they held before.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::clock::Clock;

/// How long files are believed before they are read again.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// A file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("unable to read {}: {source}", path.display())]
pub struct FileReadError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    source: io::Error,
}

/// Some files that belong together, and what they held when they were last read, good or bad.
#[derive(Debug, Default)]
pub struct WatchedFiles {
    paths: Vec<PathBuf>,
    content: Vec<Vec<u8>>,
    /// When they were last read, on the monotonic clock.
    read_at: Duration,
}

impl WatchedFiles {
    /// Reads them.
    pub fn read(paths: Vec<PathBuf>, clock: &Clock) -> Result<Self, FileReadError> {
        Ok(Self { content: read_all(&paths)?, paths, read_at: clock.monotonic() })
    }

    /// What they hold, in their order.
    pub fn content(&self) -> &[Vec<u8>] {
        &self.content
    }

    /// Reads them again if it is time to, and says whether they hold something else than before. A file that cannot be
    /// read changes nothing.
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
                tracing::warn!(%error, "what was read before is used on");
                false
            }
        }
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, FileReadError> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|source| FileReadError { path: path.clone(), source });
    paths.iter().map(read).collect()
}
