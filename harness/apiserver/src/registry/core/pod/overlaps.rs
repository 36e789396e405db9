//! Warnings about overlapping file paths in a volume. See `pkg/api/pod/warnings.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::Value;
use crate::json::fields::{array_field, non_null, str_field};
use crate::status::go_quote;

/// A path in a volume and the source that puts a file there.
struct VolumeFile {
    path: String,
    source: String,
}

impl std::fmt::Display for VolumeFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", go_quote(&self.path))?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

fn files(holder: &Value, source: &str) -> Vec<VolumeFile> {
    let file = |item| VolumeFile { path: str_field(item, "path").to_owned(), source: source.to_owned() };
    array_field(holder, "items").iter().map(file).collect()
}

fn source_name(what: &str, holder: &Value, field: &str) -> String {
    format!("{what} {}", go_quote(str_field(holder, field)))
}

/// Returns the warnings about the volumes of a pod.
pub(super) fn overlap_warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in array_field(spec, "volumes") {
        let name = go_quote(str_field(volume, "name"));
        let mut say = |what: &str, files: Vec<VolumeFile>| {
            let found = overlaps(files).into_iter();
            warnings.extend(found.map(|found| format!("volume {name} ({what}): overlapping paths: {found}")));
        };
        if let Some(map) = non_null(volume, "configMap") {
            say(&source_name("ConfigMap", map, "name"), files(map, ""));
        }
        if let Some(secret) = non_null(volume, "secret") {
            say(&source_name("Secret", secret, "secretName"), files(secret, ""));
        }
        if let Some(downward) = non_null(volume, "downwardAPI") {
            say("DownwardAPI", files(downward, ""));
        }
        let Some(projected) = non_null(volume, "projected") else { continue };
        let empty = |source: &Value| source.as_object().is_none_or(|source| source.values().all(Value::is_null));
        let sources = array_field(projected, "sources");
        say("Projected", sources.iter().flat_map(projected_files).collect());
        for _ in sources.iter().filter(|source| empty(source)) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
    }
    warnings
}

fn projected_files(source: &Value) -> Vec<VolumeFile> {
    for (field, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(holder) = non_null(source, field) {
            return files(holder, &source_name(what, holder, "name"));
        }
    }
    if let Some(downward) = non_null(source, "downwardAPI") {
        return files(downward, "DownwardAPI");
    }
    non_null(source, "serviceAccountToken").map_or_else(Vec::new, |token| {
        vec![VolumeFile { path: str_field(token, "path").to_owned(), source: "ServiceAccountToken".to_owned() }]
    })
}

/// Most pairs of files in warnings: replies have no room for more.
const PAIRS_MAX: usize = 1000;

/// Returns each pair of files where one is, contains or is contained in an earlier one.
fn overlaps(files: Vec<VolumeFile>) -> Vec<String> {
    let mut earlier: Vec<VolumeFile> = Vec::new();
    let mut by_path: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for mut file in files {
        file.path.truncate(file.path.trim_end_matches('/').len());
        if !file.path.is_empty() && found.len() < PAIRS_MAX {
            let whole = format!("{}/", file.path);
            let above = whole.match_indices('/').filter_map(|(at, _)| by_path.get(&whole[..=at])).flatten();
            let below = by_path.range(whole.clone()..).take_while(|(path, _)| path.starts_with(&whole));
            let hits: BTreeSet<usize> = above.chain(below.flat_map(|(_, all)| all)).copied().collect();
            found.extend(hits.into_iter().take(PAIRS_MAX).map(|other| format!("{file} with {}", earlier[other])));
            by_path.entry(whole).or_default().push(earlier.len());
        }
        earlier.push(file);
    }
    found
}
