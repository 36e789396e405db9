//! The files of the repository, for tests of its rules.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file: its path below the folder that was searched, and its text.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the suite lies two folders deep").to_owned()
}

/// Returns the files below `folder` whose names end in `extension`, in order of their paths, without those of builds.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Vec<SourceFile> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a readable folder") {
            let entry = entry.expect("a readable entry");
            let path = entry.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A link leads to files that are found without it.
            if entry.file_type().expect("a type").is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a readable file");
                let path = path.strip_prefix(folder).expect("below the folder").display().to_string();
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns the Rust sources of the workspace.
pub(crate) fn rust_sources() -> Vec<SourceFile> {
    let sources = files_below(&repository(), "rs");
    assert!(sources.len() > 400, "the search is broken: {} files", sources.len());
    sources
}
