//! A git repository of its own for a test.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support;

/// A repository in a temporary folder.
pub(crate) struct GitRepository(tempfile::TempDir);

impl GitRepository {
    /// Creates an empty repository.
    pub(crate) fn new() -> Self {
        let repository = Self(tempfile::tempdir().expect("a folder"));
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(path, bytes).expect("a writable folder");
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(self.path()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        let output = git.args(identity).args(arguments).output().expect("git");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Commits all files.
    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Runs `plumbline review` in it.
    pub(crate) fn review(&self, arguments: &[&str]) -> Output {
        let mut command = support::program();
        command.current_dir(self.path()).arg("review").args(arguments).output().expect("the program starts")
    }
}
