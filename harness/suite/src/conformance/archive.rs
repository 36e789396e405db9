//! Evidence at hand: a folder, or an archive of one, with one reader for both.
//!
//! ```text
//! evidence.sha256                    digests of the files below, tied to a report: see `manifest`
//! evidence/index.yaml                fixtures, failures, and the folder of each: see `evidence`
//! evidence/origin.yaml               how the run was made, for `replay`
//! evidence/podgc/…/transcript.txt    and so on
//! ```
//!
//! `conform` fills a folder; `publish` and `run --evidence` write the archive, a zip file with the same layout. Nothing
//! is ever unpacked from an archive, because it may come from a stranger.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::digest;

/// The folder of the evidence, next to the report and in an archive.
pub const EVIDENCE: &str = "evidence";

/// The manifest of the evidence, next to the report and in an archive.
pub const MANIFEST: &str = "evidence.sha256";

/// End of the file name of an archive.
pub const SUFFIX: &str = ".evidence.zip";

/// Replaces the digest of a symbolic link, which could lead to any file of the reader.
pub const LINK: &str = "a symbolic link";

/// Maximum size of a file that is read from an archive, in bytes.
const MAX_SIZE: u64 = 64 << 20;

/// The digests of all that is published with a report. The evidence names the report's digest, and the report these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedEvidence {
    /// Digest of the manifest in the archive of the evidence, which has the digest of every file in it.
    pub archive: String,
    /// Digests of the files next to the report, by path.
    pub files: BTreeMap<String, String>,
}

/// A folder or an archive with evidence.
#[derive(Debug)]
pub struct EvidenceSource {
    path: PathBuf,
    archive: Option<ZipArchive<File>>,
}

/// Evidence that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("unable to read {name} of {}: {source}", path.display())]
pub struct EvidenceError {
    /// The folder or archive.
    path: PathBuf,
    /// The file in it.
    name: String,
    /// The reason.
    source: io::Error,
}

impl EvidenceSource {
    /// Opens the archive at `path`, or the folder of a report with its evidence.
    ///
    /// # Errors
    ///
    /// Returns an error if there is neither, or a file that is no archive.
    pub fn open(path: &Path) -> Result<Self, EvidenceError> {
        let failed = |source| EvidenceError { path: path.to_owned(), name: "the archive".to_owned(), source };
        let archive = if path.is_dir() {
            None
        } else {
            let file = File::open(path).map_err(failed)?;
            Some(ZipArchive::new(file).map_err(|error| failed(io::Error::other(error)))?)
        };
        Ok(Self { path: path.to_owned(), archive })
    }

    /// Returns the text of a file; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read or is larger than 64 MiB.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, EvidenceError> {
        let bytes = self.bytes(name).map_err(|source| self.error(name, source))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns the digest of each file below [`EVIDENCE`], by its path there.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read.
    pub fn digests(&mut self) -> Result<BTreeMap<String, String>, EvidenceError> {
        let prefix = format!("{EVIDENCE}/");
        let mut digests = BTreeMap::new();
        for name in self.names()? {
            let Some(inner) = name.strip_prefix(&prefix) else { continue };
            let is_link = self.archive.is_none() && self.path.join(&name).is_symlink();
            let digest = if is_link {
                LINK.to_owned()
            } else {
                let bytes = self.bytes(&name).map_err(|source| self.error(&name, source))?;
                digest::bytes(&bytes.unwrap_or_default())
            };
            digests.insert(inner.to_owned(), digest);
        }
        Ok(digests)
    }

    /// Writes the manifest and the evidence to an archive at `to`, in the order of their paths: equal evidence makes
    /// equal bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or the archive cannot be written.
    pub fn pack(&mut self, to: &Path) -> Result<(), EvidenceError> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = to.with_file_name(name);
        self.pack_new(&new).and_then(|()| fs::rename(&new, to)).map_err(|source| EvidenceError {
            path: to.to_owned(),
            name: "the archive".to_owned(),
            source,
        })
    }

    fn pack_new(&mut self, new: &Path) -> io::Result<()> {
        let mut writer = ZipWriter::new(File::create(new)?);
        for name in self.names().map_err(io::Error::other)? {
            writer.start_file(name.as_str(), SimpleFileOptions::default())?;
            writer.write_all(&self.bytes(&name)?.unwrap_or_default())?;
        }
        writer.finish()?.flush()
    }

    /// Returns the names of the manifest, if there is one, and of all files below [`EVIDENCE`], sorted.
    fn names(&self) -> Result<Vec<String>, EvidenceError> {
        let mut names = Vec::new();
        if let Some(archive) = &self.archive {
            names.extend(archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())));
        } else {
            below(&self.path, EVIDENCE, &mut names).map_err(|source| self.error(EVIDENCE, source))?;
            if self.path.join(MANIFEST).is_file() {
                names.push(MANIFEST.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn bytes(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(archive) = &mut self.archive else {
            return match fs::read(self.path.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                bytes => bytes.map(Some),
            };
        };
        let mut bytes = Vec::new();
        match archive.by_name(name) {
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            file => file?.take(MAX_SIZE + 1).read_to_end(&mut bytes)?,
        };
        if bytes.len() as u64 > MAX_SIZE {
            return Err(io::Error::other(format!("it is larger than {MAX_SIZE} bytes")));
        }
        Ok(Some(bytes))
    }

    fn error(&self, name: &str, source: io::Error) -> EvidenceError {
        EvidenceError { path: self.path.clone(), name: name.to_owned(), source }
    }
}

/// Collects the names of the files below `folder` of `root`.
fn below(root: &Path, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            below(root, &name, names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a folder with a manifest and evidence.
    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("evidence.sha256", "# report\n");
        put("evidence/index.yaml", "[]\n");
        put("evidence/podgc/a/transcript.txt", "t=+0s é\n");
        put("report.yaml", "not evidence");
        root
    }

    #[test]
    fn an_archive_reads_like_its_folder() {
        let root = folder();
        let mut source = EvidenceSource::open(root.path()).expect("a folder");
        let path = root.path().join("a.evidence.zip");
        source.pack(&path).expect("a writable folder");
        let mut archive = EvidenceSource::open(&path).expect("an archive");
        assert_eq!(archive.names().expect("names"), source.names().expect("names"));
        assert_eq!(archive.names().expect("names").len(), 3, "the report is not evidence");
        assert_eq!(archive.digests().expect("readable"), source.digests().expect("readable"));
        let name = "evidence/podgc/a/transcript.txt";
        assert_eq!(archive.text(name).expect("readable").as_deref(), Some("t=+0s é\n"));
        assert_eq!(archive.text("evidence/none").expect("readable"), None);
        assert_eq!(archive.text("report.yaml").expect("readable"), None);

        let bytes = fs::read(&path).expect("an archive");
        archive.pack(&path).expect("a writable folder");
        assert_eq!(fs::read(&path).expect("an archive"), bytes, "an archive of an archive is the same");
    }

    #[test]
    fn what_is_no_archive_is_named() {
        let root = folder();
        let path = root.path().join("no.zip");
        fs::write(&path, "PK").expect("a file");
        let refused = EvidenceSource::open(&path).expect_err("no archive").to_string();
        assert!(refused.contains("unable to read the archive of ") && refused.contains("no.zip"), "{refused}");
        assert!(EvidenceSource::open(&root.path().join("none.zip")).is_err());
    }
}
