//! The Kubernetes checkout that the tables are made from.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::go;

/// An error of the generator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file is not what the generator expects.
    #[error("{place}: {problem}")]
    Input {
        /// The file, the type or the field.
        place: String,
        /// The problem.
        problem: String,
    },
}

impl Error {
    /// Creates the error for unexpected input.
    pub(crate) fn input(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Input { place: place.into(), problem: problem.into() }
    }
}

/// A Kubernetes checkout and its minor version.
pub(crate) struct Checkout {
    root: PathBuf,
    /// The minor version, such as `1.36`.
    pub(crate) version: String,
}

/// Go files that repeat or convert the types.
const DERIVED: [&str; 4] = ["zz_generated.", "generated.pb.go", "generated.protomessage.pb.go", "types_swagger_doc_"];

impl Checkout {
    /// Creates a checkout at `root`.
    pub(crate) fn new(root: PathBuf, version: String) -> Self {
        Self { root, version }
    }

    /// Reads a file below the root.
    pub(crate) fn text(&self, path: &str) -> Result<String, Error> {
        read(&self.root.join(path))
    }

    /// Reads a JSON file below the root.
    pub(crate) fn json(&self, path: &str) -> Result<Value, Error> {
        serde_json::from_str(&self.text(path)?).map_err(|error| Error::input(path, error.to_string()))
    }

    /// Reads a YAML file below the root.
    pub(crate) fn yaml(&self, path: &str) -> Result<Value, Error> {
        serde_saphyr::from_str(&self.text(path)?).map_err(|error| Error::input(path, error.to_string()))
    }

    /// Reads the type declarations of a Go package by its folder.
    pub(crate) fn declarations(&self, folder: &str, import: &str) -> Result<BTreeMap<String, go::Declaration>, Error> {
        let path = self.root.join(folder);
        let error = |error| Error::Read { path: path.clone(), error };
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(error)? {
            names.push(entry.map_err(error)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let wanted = |name: &String| {
            Path::new(name).extension().is_some_and(|kind| kind == "go")
                && !name.ends_with("_test.go")
                && !DERIVED.iter().any(|start| name.starts_with(start))
        };
        let mut texts = Vec::new();
        for name in names.iter().filter(|name| wanted(name)) {
            texts.push(read(&path.join(name))?);
        }
        let mut all: BTreeMap<String, go::Declaration> =
            texts.iter().flat_map(|text| go::declarations(text, import)).collect();
        for (ty, value) in texts.iter().flat_map(|text| go::constants(text)) {
            if let Some(declaration) = all.get_mut(ty).filter(|known| known.markers.iter().any(|text| text == "enum")) {
                declaration.values.push(resolved(folder, value)?.to_owned());
            }
        }
        for declaration in all.values_mut() {
            declaration.values.sort();
            declaration.values.dedup();
        }
        Ok(all)
    }
}

/// Values of constants in other packages that enumerations are made of.
///
/// By hand: their packages are not read for constants. An unknown one is an error.
const CONSTANTS: [(&str, &str); 2] = [("v1.IPv4Protocol", "IPv4"), ("v1.IPv6Protocol", "IPv6")];

fn resolved<'a>(folder: &str, value: go::Constant<'a>) -> Result<&'a str, Error> {
    match value {
        go::Constant::Text(text) => Ok(text),
        go::Constant::Other(name) => {
            CONSTANTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).ok_or_else(|| {
                Error::input(folder, format!("the value of {name} is not in CONSTANTS of the generator"))
            })
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::Read { path: path.to_owned(), error })
}
