//! Objects in YAML and JSON files, for `serve --seed-from` and `explore --manifests`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::serve::ServeError;

/// The names of kustomize's own file.
const KUSTOMIZATION: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// An object of a file, and its place.
pub(super) struct SeedObject {
    /// `crds/a.yaml: document 2`
    pub(super) from: String,
    pub(super) object: Value,
}

/// Returns the objects in the files and folders, and in the local files and folders that a kustomization names as its
/// resources: its patches do not count. The flag of an object is true unless its own file was named.
///
/// # Errors
///
/// Returns the first file that cannot be read, or is no YAML.
pub(super) fn manifests(paths: &[PathBuf]) -> Result<Vec<(SeedObject, bool)>, ServeError> {
    let mut all = Vec::new();
    let mut met = BTreeSet::new();
    for path in paths {
        add(path, path.is_dir(), &mut met, &mut all)?;
    }
    Ok(all)
}

fn add(
    path: &Path,
    in_folder: bool,
    met: &mut BTreeSet<PathBuf>,
    all: &mut Vec<(SeedObject, bool)>,
) -> Result<(), ServeError> {
    let file = std::fs::canonicalize(path).map_err(|error| ServeError::Unreadable { path: path.to_owned(), error })?;
    if !met.insert(file) {
        return Ok(());
    }
    if path.is_dir() {
        return files(path)?.iter().try_for_each(|file| add(file, true, met, all));
    }
    for found in objects(path)? {
        if is_for_kustomize(&found.from, &found.object) {
            let folder = path.parent().unwrap_or(Path::new("."));
            let named = ["resources", "bases"].iter().filter_map(|list| found.object[list].as_array()).flatten();
            let local = named.filter_map(|name| Some(folder.join(name.as_str()?))).filter(|named| named.exists());
            local.collect::<Vec<_>>().iter().try_for_each(|named| add(named, true, met, all))?;
        } else {
            all.push((found, in_folder));
        }
    }
    Ok(())
}

/// Returns the YAML and JSON files of a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, ServeError> {
    let failed = |error| ServeError::Unreadable { path: folder.to_owned(), error };
    let entries = std::fs::read_dir(folder).map_err(failed)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_text = |file: &PathBuf| matches!(file.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"));
    let mut files: Vec<PathBuf> = entries.filter(is_text).collect();
    files.sort();
    Ok(files)
}

/// Returns the objects in a file, or in the YAML and JSON files of a folder sorted by name; lists are split into their
/// items.
pub(super) fn objects(path: &Path) -> Result<Vec<SeedObject>, ServeError> {
    if path.is_dir() {
        let mut all = Vec::new();
        for file in files(path)? {
            all.extend(objects(&file)?);
        }
        return Ok(all);
    }
    let file = path.display();
    // The file is the user's own, so its size is not limited.
    let budget = serde_saphyr::budget! { max_nodes: usize::MAX, max_events: usize::MAX, max_documents: usize::MAX };
    let options = serde_saphyr::options! { budget: budget };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&read(path)?, options)
        .map_err(|error| ServeError::File { path: path.to_owned(), why: error.without_snippet().to_string() })?;
    let documents = documents.into_iter().enumerate().filter(|(_, document)| !document.is_null());
    Ok(documents.flat_map(|(index, document)| unlisted(format!("{file}: document {}", index + 1), document)).collect())
}

fn unlisted(from: String, mut document: Value) -> Vec<SeedObject> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").filter(|_| is_list).map(Value::take) {
        Some(Value::Array(items)) => {
            let items = items.into_iter().enumerate();
            items.map(|(index, object)| SeedObject { from: format!("{from}: items[{index}]"), object }).collect()
        }
        _ => vec![SeedObject { from, object: document }],
    }
}

/// Returns true for the files of kustomize, which are no objects of a cluster. A kustomization may be known by its name
/// alone: kustomize fills in the kind and the version (`FixKustomizationPostUnmarshalling` of its `api/types`).
pub(super) fn is_for_kustomize(from: &str, object: &Value) -> bool {
    let file = from.split(": document ").next().and_then(|file| Path::new(file).file_name()?.to_str());
    match object["apiVersion"].as_str().filter(|version| !version.is_empty()) {
        Some(version) => version.starts_with("kustomize.config.k8s.io/"),
        None => file.is_some_and(|file| KUSTOMIZATION.contains(&file)),
    }
}

/// Returns the text of a file.
///
/// # Errors
///
/// Returns an error if it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, ServeError> {
    std::fs::read_to_string(path).map_err(|error| ServeError::Unreadable { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn seeds_are_read_in_order_and_lists_taken_apart() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(
            folder.join("b.json"),
            json!({"kind": "PodList", "items": [{"kind": "Pod", "x": 2}, {"x": 3}]}).to_string(),
        )
        .unwrap();
        std::fs::write(folder.join("a.yaml"), "kind: Pod\nx: 0\n---\nkind: Node\nx: 1\n").unwrap();
        std::fs::write(folder.join("c.txt"), "no").unwrap();
        let found = objects(folder).unwrap();
        assert_eq!(
            found.iter().map(|seed| seed.object["x"].as_i64()).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(3)]
        );
        assert!(found[2].from.ends_with("b.json: document 1: items[0]"), "{}", found[2].from);
        assert!(objects(&folder.join("none")).is_err());
    }

    #[rstest]
    #[case::by_name("k/kustomization.yaml: document 1", json!({"resources": ["a.yaml"]}), true)]
    #[case::short_name("kustomization.yml: document 1", json!({"namespace": "x"}), true)]
    #[case::by_version("x.yaml: document 2", json!({"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}), true)]
    #[case::an_object("kustomization.yaml: document 1", json!({"apiVersion": "v1", "kind": "ConfigMap"}), false)]
    #[case::no_version("a.yaml: document 1", json!({"kind": "ConfigMap"}), false)]
    fn files_of_kustomize_are_passed_over(#[case] from: &str, #[case] object: Value, #[case] expected: bool) {
        assert_eq!(is_for_kustomize(from, &object), expected);
    }

    #[test]
    fn a_kustomization_leads_to_its_resources() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir(folder.join("bases")).unwrap();
        let resources = "resources: [bases/a.yaml, b.yaml, https://x/y, .]\n";
        std::fs::write(folder.join("kustomization.yaml"), resources).unwrap();
        std::fs::write(folder.join("bases/a.yaml"), "kind: A\n").unwrap();
        std::fs::write(folder.join("b.yaml"), "kind: B\n").unwrap();
        let kinds = |path: &Path| -> Vec<(String, bool)> {
            let found = manifests(&[path.to_owned()]).unwrap();
            let kind = |object: &Value| object["kind"].as_str().unwrap().to_owned();
            found.into_iter().map(|(seed, in_folder)| (kind(&seed.object), in_folder)).collect()
        };
        assert_eq!(kinds(folder), [("B".to_owned(), true), ("A".to_owned(), true)]);
        assert_eq!(kinds(&folder.join("b.yaml")), [("B".to_owned(), false)]);
    }
}
