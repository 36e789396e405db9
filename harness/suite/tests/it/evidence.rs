//! Archives of evidence, which are run again.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::cli::{self, plumbline};

/// Creates a folder with a fixture whose expectation cannot hold.
fn folder(test: &str) -> PathBuf {
    cli::folder(test, &[("podgc/bad.yaml", cli::BAD)])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a copy of an archive in which a file is changed.
fn edited(from: &Path, to: &Path, changed: &str, change: impl Fn(String) -> String) {
    let mut archive = ZipArchive::new(File::open(from).expect("an archive")).expect("a zip file");
    let mut writer = ZipWriter::new(File::create(to).expect("a writable file"));
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("a file");
        let name = file.name().expect("a name").into_owned();
        let mut content = String::new();
        file.read_to_string(&mut content).expect("UTF-8");
        let content = if name == changed { change(content) } else { content };
        writer.start_file(name, SimpleFileOptions::default()).expect("a new file");
        writer.write_all(content.as_bytes()).expect("a writable file");
    }
    writer.finish().expect("a writable file");
}

#[test]
fn failures_are_replayed_on_another_machine() {
    let root = folder("evidence");
    let output = plumbline(&root, &["run", "--evidence", "out.zip"]);
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    let written = root.join("out.zip");
    let archive = ZipArchive::new(File::open(&written).expect("an archive")).expect("a zip file");
    let names: Vec<_> = archive.file_names().map(|name| name.expect("a name")).collect();
    let files = ["failures.txt", "fixture.yaml", "objects.yaml", "subject.log", "transcript.txt"];
    let mut expected = vec!["evidence/index.yaml".to_owned(), "evidence/origin.yaml".to_owned()];
    expected.extend(files.map(|name| format!("evidence/podgc/bad/{name}")));
    assert_eq!(names, expected);

    // The fixtures are not needed.
    std::fs::remove_dir_all(root.join("fixtures")).expect("a folder");
    let output = plumbline(&root, &["replay", "out.zip"]);
    let expected = "podgc/bad came out the same: outcome, failures and transcript are equal (failed)\n";
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), expected), "{}", text(&output.stderr));
    let output = plumbline(&root, &["replay", "out.zip", "podgc/good"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("out.zip has no failure of such a fixture"), "{}", text(&output.stderr));

    let index = "evidence/index.yaml";
    edited(&written, &root.join("other.zip"), index, |yaml| yaml.replace("exists: pods/a", "exists: pods/b"));
    let output = plumbline(&root, &["replay", "other.zip"]);
    assert_eq!(output.status.code(), Some(101), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("failed before only: exists: pods/b"), "{}", text(&output.stdout));
}

#[test]
fn an_archive_runs_no_command_unless_it_is_trusted() {
    let root = folder("evidence-trust");
    plumbline(&root, &["run", "--evidence", "out.zip"]);
    let written = root.join("out.zip");
    let origin = "evidence/origin.yaml";
    edited(&written, &root.join("evil.zip"), origin, |yaml| {
        yaml.replace("flags: \"\"", "flags: \"--command 'touch evil-was-here'\"")
    });
    let output = plumbline(&root, &["replay", "evil.zip"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("evil.zip runs a command: touch evil-was-here"), "{}", text(&output.stderr));
    assert!(!root.join("evil-was-here").exists());
    edited(&written, &root.join("newer.zip"), origin, |yaml| yaml.replace("evidence/v1", "evidence/v2"));
    edited(&written, &root.join("outside.zip"), "evidence/index.yaml", |yaml| {
        yaml.replace("folder: podgc/bad", "folder: ../podgc/bad")
    });
    std::fs::write(root.join("no.zip"), "PK").expect("a writable file");
    for (file, message) in [
        ("newer.zip", "has apiVersion `plumbline-evidence/v2`"),
        ("outside.zip", "the folder `../podgc/bad` is not below evidence/"),
        ("no.zip", "unable to read the archive"),
    ] {
        let output = plumbline(&root, &["replay", file]);
        assert_eq!(output.status.code(), Some(5), "{file}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}
