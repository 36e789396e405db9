//! The fixtures' commit in their git repository, and the fixtures as they were at a commit.
//!
//! A published report outlives the suite that made it. Its commit finds the fixtures again, and their digest shows that
//! they are the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::digest;
use crate::git::{self, GitError, git};

/// The commit of a fixtures folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteCommit {
    /// The commit that last changed the folder.
    pub commit: String,
    /// True if the folder differs from that commit.
    pub modified: bool,
}

/// A reason for which the fixtures of a commit are not at hand.
#[derive(Debug, thiserror::Error)]
pub enum FormerFixturesError {
    /// The text is not a full hash.
    #[error("`{0}` is not a commit")]
    NoCommit(String),
    /// The commit is not one of this repository's.
    #[error("commit {commit} is not in the history of {}", repository.display())]
    Elsewhere {
        /// The commit.
        commit: String,
        /// The root of the repository.
        repository: PathBuf,
    },
    /// The commit has other fixtures than the report.
    #[error("the fixtures of commit {commit} have {found}")]
    Others {
        /// The commit.
        commit: String,
        /// The digest of its fixtures.
        found: String,
    },
    /// This version does not understand the commit's fixtures.
    #[error("the fixtures of commit {0} are not readable by this version: use that commit's plumbline")]
    Unreadable(String),
    /// A folder cannot be created.
    #[error("unable to create {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The commit's files cannot be read.
    #[error(transparent)]
    Digest(#[from] digest::ReadError),
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Returns the commit of the fixtures below `root`; `None` outside of a git repository.
#[must_use]
pub fn commit_of(root: &Path) -> Option<SuiteCommit> {
    let commit = git::line(root, &["log", "-1", "--format=%H", "--", "."]).ok()?;
    let changes = git::line(root, &["status", "--porcelain", "--", "."]).ok()?;
    is_commit(&commit).then_some(SuiteCommit { commit, modified: !changes.is_empty() })
}

/// Returns true if `text` has the form of a full commit hash.
#[must_use]
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Writes the fixtures folder `root` as it was at `commit` to a folder below `scratch`, and returns that folder.
/// Commits that are not in the history of the checkout are refused: anyone can offer one.
///
/// # Errors
///
/// Returns the reason if the commit is unknown, or its fixtures do not have the digest `suite`.
pub fn fixtures_at(root: &Path, commit: &str, suite: &str, scratch: &Path) -> Result<PathBuf, FormerFixturesError> {
    if !is_commit(commit) {
        return Err(FormerFixturesError::NoCommit(commit.to_owned()));
    }
    let top = PathBuf::from(git::line(root, &["rev-parse", "--show-toplevel"])?);
    let folder = git::line(root, &["rev-parse", "--show-prefix"])?;
    if git(&top, &["merge-base", "--is-ancestor", commit, "HEAD"], None).is_err() {
        return Err(FormerFixturesError::Elsewhere { commit: commit.to_owned(), repository: top });
    }
    let index = scratch.join("index");
    let out = scratch.join("fixtures");
    git(&top, &["read-tree", &format!("{commit}:{}", folder.trim_end_matches('/'))], Some(&index))?;
    git(&top, &["checkout-index", "--all", &format!("--prefix={}/", out.display())], Some(&index))?;
    fs::create_dir_all(&out).map_err(|source| FormerFixturesError::Folder { path: out.clone(), source })?;
    let found = digest::suite(&out)?;
    if found == suite { Ok(out) } else { Err(FormerFixturesError::Others { commit: commit.to_owned(), found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(root: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        git(root, &[&identity[..], arguments].concat(), None).expect("git works");
    }

    #[test]
    fn fixtures_of_former_commits_are_found_again() {
        let top = tempfile::tempdir().expect("a folder");
        let root = top.path().join("fixtures");
        fs::create_dir_all(root.join("ttl")).expect("a folder");
        let write = |text: &str| fs::write(root.join("ttl/a.yaml"), text).expect("a file");
        write("one\n");
        assert_eq!(commit_of(&root), None, "no repository");
        if git(top.path(), &["init", "--quiet"], None).is_err() {
            return;
        }
        run(top.path(), &["add", "."]);
        run(top.path(), &["commit", "--quiet", "-m", "one"]);
        let first = commit_of(&root).expect("a commit");
        let suite = digest::suite(&root).expect("a suite");
        assert!(is_commit(&first.commit) && !first.modified, "{first:?}");
        write("two\n");
        assert_eq!(commit_of(&root), Some(SuiteCommit { modified: true, ..first.clone() }));
        run(top.path(), &["commit", "--quiet", "-a", "-m", "two"]);
        assert_ne!(commit_of(&root).map(|now| now.commit), Some(first.commit.clone()));

        let scratch = tempfile::tempdir().expect("a folder");
        let found = fixtures_at(&root, &first.commit, &suite, scratch.path()).expect("the former fixtures");
        assert_eq!(fs::read_to_string(found.join("ttl/a.yaml")).expect("a file"), "one\n");
        assert_eq!(fs::read_to_string(root.join("ttl/a.yaml")).expect("a file"), "two\n", "the checkout is untouched");
        let refused = |commit: &str, suite: &str| {
            let scratch = tempfile::tempdir().expect("a folder");
            fixtures_at(&root, commit, suite, scratch.path()).expect_err("refused")
        };
        assert!(refused(&first.commit, "sha256:0").to_string().contains("the fixtures of commit"));
        assert!(refused(&"0".repeat(40), &suite).to_string().contains("not in the history"));
        assert!(refused("HEAD", &suite).to_string().contains("is not a commit"));
    }
}
