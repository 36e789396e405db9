//! Capsules of failures.

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

/// Writes a copy of a capsule in which `capsule.json` is changed.
fn edited(from: &Path, to: &Path, change: impl Fn(String) -> String) {
    let mut archive = ZipArchive::new(File::open(from).expect("a capsule")).expect("a zip file");
    let mut writer = ZipWriter::new(File::create(to).expect("a writable file"));
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("a file");
        let name = file.name().expect("a name").into_owned();
        let mut content = String::new();
        file.read_to_string(&mut content).expect("UTF-8");
        let content = if name == "capsule.json" { change(content) } else { content };
        writer.start_file(name, SimpleFileOptions::default()).expect("a new file");
        writer.write_all(content.as_bytes()).expect("a writable file");
    }
    writer.finish().expect("a writable file");
}

#[test]
fn a_capsule_is_replayed_on_another_machine() {
    let root = folder("capsules");
    let output = plumbline(&root, &["run", "--capsule", "out"]);
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    let capsule = root.join("out/podgc_bad.zip");
    let archive = ZipArchive::new(File::open(&capsule).expect("a capsule")).expect("a zip file");
    let names: Vec<_> = archive.file_names().map(|name| name.expect("a name")).collect();
    assert_eq!(names, ["capsule.json", "fixture.yaml", "transcript.txt", "objects.yaml", "subject.log"]);

    // The fixtures are not needed.
    std::fs::remove_dir_all(root.join("fixtures")).expect("a folder");
    let output = plumbline(&root, &["replay", "out/podgc_bad.zip"]);
    let expected = "podgc/bad came out the same: outcome, failures and transcript are equal (failed)\n";
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), expected), "{}", text(&output.stderr));

    edited(&capsule, &root.join("other.zip"), |json| json.replace("exists: pods/a\"", "exists: pods/b\""));
    let output = plumbline(&root, &["replay", "other.zip"]);
    assert_eq!(output.status.code(), Some(101), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("failed before only: exists: pods/b"), "{}", text(&output.stdout));
}

#[test]
fn a_capsule_runs_no_command_unless_it_is_trusted() {
    let root = folder("capsules-trust");
    plumbline(&root, &["run", "--capsule", "out"]);
    let capsule = root.join("out/podgc_bad.zip");
    edited(&capsule, &root.join("evil.zip"), |json| {
        json.replace("\"flags\": \"\"", "\"flags\": \"--command 'touch evil-was-here'\"")
    });
    let output = plumbline(&root, &["replay", "evil.zip"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("evil.zip runs a command: touch evil-was-here"), "{}", text(&output.stderr));
    assert!(!root.join("evil-was-here").exists());
    edited(&capsule, &root.join("newer.zip"), |json| json.replace("plumbline-capsule/v1", "plumbline-capsule/v2"));
    std::fs::write(root.join("no.zip"), "PK").expect("a writable file");
    for (file, message) in [("newer.zip", "has apiVersion `plumbline-capsule/v2`"), ("no.zip", "it is not a capsule")] {
        let output = plumbline(&root, &["replay", file]);
        assert_eq!(output.status.code(), Some(5), "{file}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}
