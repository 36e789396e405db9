//! The layers of the crate: `api` is a leaf, `runtime` imports `api` only, `write` knows no controller.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[rstest]
#[case::api("api", &["api"])]
#[case::runtime("runtime", &["api", "runtime"])]
#[case::write("write", &["api", "runtime", "write"])]
fn modules_import_only_from_the_layers_below(#[case] module: &str, #[case] allowed: &[&str]) {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module), &mut files);
    assert!(files.len() > 3, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for import in line.split("crate::").skip(1) {
                let end = import.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(import.len());
                assert!(allowed.contains(&&import[..end]), "{}: {line}", path.display());
            }
        }
    }
}
