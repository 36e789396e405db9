//! Temporary folders that do not stay behind: a process removes its own, and the next one those of processes that were
//! killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use tempfile::TempDir;

/// The beginning of the names of all such folders.
const PREFIX: &str = "plumbline-";

/// A file in each of them, which the process holds locked that has made it. The kernel releases the lock at its end.
const LOCK: &str = "in-use";

/// A folder below the one for temporary files, removed when this is dropped.
///
/// If the process is killed, it cannot remove anything, and all that it has started inside a tracer dies with it. The
/// next process that makes such a folder removes those whose makers have ended.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: TempDir,
    lock: File,
}

impl TemporaryFolder {
    /// Makes a folder; its name begins with `plumbline-` and `kind`.
    pub fn new(kind: &str) -> io::Result<Self> {
        static ONCE: Once = Once::new();
        let folder = tempfile::Builder::new().prefix(&format!("{PREFIX}{kind}")).tempdir()?;
        ONCE.call_once(|| remove_abandoned(&std::env::temp_dir(), folder.path()));
        // It gets its name once it is locked: without that name, the folder is not removed.
        let starting = folder.path().join("starting");
        let lock = File::create(&starting)?;
        lock.lock()?;
        fs::rename(starting, folder.path().join(LOCK))?;
        Ok(Self { folder, lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Lets it stay, with what is in it, and returns its path.
    pub fn keep(self) -> PathBuf {
        // The other way around, it might be removed in between.
        let _ = fs::remove_file(self.folder.path().join(LOCK));
        drop(self.lock);
        self.folder.keep()
    }
}

/// Removes the folders in `place` whose processes have ended, if they belong to the owner of the folder `own`.
fn remove_abandoned(place: &Path, own: &Path) {
    let Some(user) = owner(own) else { return };
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let folder = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && owner(&folder) == Some(user)
            && let Ok(lock) = File::open(folder.join(LOCK))
            && lock.try_lock().is_ok()
        {
            // What cannot be removed stays, as it would have without this.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Returns the owner of a folder; `None` for anything else.
#[cfg(unix)]
fn owner(folder: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir).map(|metadata| metadata.uid())
}

#[cfg(not(unix))]
fn owner(folder: &Path) -> Option<u32> {
    fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir).map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_have_ended_are_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let make = |name: &str, lock: Option<&str>| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("time.sock"), "").expect("a file");
            lock.map(|lock| File::create(folder.join(lock)).expect("a file"))
        };
        let lock = make("plumbline-held", Some(LOCK)).expect("a file");
        lock.lock().expect("a lock");
        drop(make("plumbline-abandoned", Some(LOCK)));
        drop(make("plumbline-starting", Some("starting")));
        drop(make("plumbline-kept", None));
        drop(make("others-abandoned", Some(LOCK)));
        fs::write(place.path().join("plumbline-file"), "").expect("a file");
        remove_abandoned(place.path(), place.path());
        let mut left: Vec<_> =
            fs::read_dir(place.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["others-abandoned", "plumbline-file", "plumbline-held", "plumbline-kept", "plumbline-starting"]
        );
    }

    #[test]
    fn folders_are_locked_and_go_with_their_owner() {
        let folder = TemporaryFolder::new("test-").expect("a folder");
        let path = folder.path().to_owned();
        assert!(File::open(path.join(LOCK)).expect("a lock").try_lock().is_err());
        drop(folder);
        assert!(!path.exists());
        let kept = TemporaryFolder::new("test-").expect("a folder").keep();
        assert!(!kept.join(LOCK).exists());
        fs::remove_dir(kept).expect("an empty folder");
    }
}
