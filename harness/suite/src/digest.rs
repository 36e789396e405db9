//! Digests of fixtures, reports and programs. All are SHA-256, written `sha256:<hex>`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::Value;

/// Subfolder of the fixtures with known deviations; not part of the suite.
const DEVIATIONS: &str = "deviations";

/// A file or folder that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("unable to read {}{}: {source}", if *is_folder { "the folder " } else { "" }, path.display())]
pub struct ReadError {
    /// Its path.
    pub path: PathBuf,
    /// True for a folder.
    pub is_folder: bool,
    /// The system's error.
    pub source: std::io::Error,
}

/// Returns the digest of `bytes`.
#[must_use]
pub fn bytes(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    finish(context)
}

fn finish(context: Context) -> String {
    context.finish().as_ref().iter().fold("sha256:".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Returns true if `text` has the form of a digest.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns the digest of a file's content.
///
/// # Errors
///
/// Returns an error if the file cannot be read; the message names it.
pub fn file(path: &Path) -> Result<String, ReadError> {
    let unreadable = |source| ReadError { path: path.to_owned(), is_folder: false, source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(finish(context)),
            length => context.update(&buffer[..length]),
        }
    }
}

/// Returns the file that is started for `program`: the path itself, or the first match in `PATH`.
#[must_use]
pub fn program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns the digest of the suite: of every YAML file below `root` with its path, in path order, without known
/// deviations.
///
/// Line ends count as `
/// `, so checkouts on different systems have the same digest.
///
/// # Errors
///
/// Returns an error if a folder or file cannot be read; the message names it.
pub fn suite(root: &Path) -> Result<String, ReadError> {
    let mut files = Vec::new();
    find(root, Path::new(""), &mut files)?;
    files.sort();
    let mut context = Context::new(&SHA256);
    for name in files {
        let path = root.join(&name);
        let text =
            fs::read_to_string(&path).map_err(|source| ReadError { path: path.clone(), is_folder: false, source })?;
        // Lengths separate the end of a file from the name of the next.
        for part in [name, text.replace("\r\n", "\n")] {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(part.as_bytes());
        }
    }
    Ok(finish(context))
}

/// Collects the paths of the included files, with `/` as separator.
fn find(root: &Path, below: &Path, files: &mut Vec<String>) -> Result<(), ReadError> {
    let folder = root.join(below);
    let unreadable = |source| ReadError { path: folder.clone(), is_folder: true, source };
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = below.join(&name);
        if name.starts_with('.') || path == Path::new(DEVIATIONS) {
            continue;
        }
        if entry.path().is_dir() {
            find(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            files.push(parts.join("/"));
        }
    }
    Ok(())
}

/// Formats `value` as canonical JSON: sorted keys, no whitespace.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, field)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::String(key.clone()));
                write_canonical(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn sha256_is_sha256() {
        // FIPS 180-2, appendix B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(bytes(b"abc"), abc);
        assert!(is_digest(abc));
        assert!(!is_digest(&abc.to_uppercase()) && !is_digest(&abc[..70]) && !is_digest("sha256:"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("abc");
        fs::write(&path, "abc").expect("a file");
        assert_eq!(file(&path).expect("a readable file"), abc);
        let missing = file(&folder.path().join("none")).expect_err("no such file").to_string();
        assert!(missing.starts_with("unable to read ") && missing.contains("none"), "{missing}");
    }

    #[test]
    fn canonical_json_has_one_form() {
        let value = json!({ "b": [1, { "z": null, "a": "x\"y" }], "a": true });
        assert_eq!(canonical(&value), r#"{"a":true,"b":[1,{"a":"x\"y","z":null}]}"#);
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert!(program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(program("no-such-program-anywhere"), None);
        assert_eq!(program("/no/such/program"), None);
    }

    fn tree(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        suite(folder.path()).expect("a readable suite")
    }

    #[rstest]
    #[case::same(&[("a/x.yaml", "1\n"), ("b/y.yaml", "2\n")], true)]
    #[case::line_ends(&[("a/x.yaml", "1\r\n"), ("b/y.yaml", "2\n")], true)]
    #[case::not_part_of_it(&[("a/x.yaml", "1\n"), ("b/y.yaml", "2\n"), ("README.md", "x"), ("deviations/k.yaml", "x")], true)]
    #[case::content(&[("a/x.yaml", "1\n"), ("b/y.yaml", "3\n")], false)]
    #[case::name(&[("a/z.yaml", "1\n"), ("b/y.yaml", "2\n")], false)]
    #[case::moved(&[("a/x.yaml", "2\n"), ("b/y.yaml", "1\n")], false)]
    #[case::one_more(&[("a/x.yaml", "1\n"), ("b/y.yaml", "2\n"), ("profiles.yaml", "")], false)]
    #[case::one_less(&[("a/x.yaml", "1\n")], false)]
    fn the_suite_digest_sees_what_matters(#[case] files: &[(&str, &str)], #[case] same: bool) {
        assert_eq!(tree(files) == tree(&[("a/x.yaml", "1\n"), ("b/y.yaml", "2\n")]), same);
    }
}
