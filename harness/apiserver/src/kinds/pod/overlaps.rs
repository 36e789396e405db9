//! Warnings about overlapping file paths in a volume. See `pkg/api/pod/warnings.go`.

use crate::json::Value;
use crate::kinds::meta::{self, given};
use crate::kinds::selector::array;
use crate::status::go_quote;

/// A path in a volume and the source that puts a file there.
struct File {
    path: String,
    source: String,
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", go_quote(&self.path))?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

fn files(holder: &Value, source: &str) -> Vec<File> {
    let file = |item| File { path: meta::text(item, "path").to_owned(), source: source.to_owned() };
    array(holder, "items").iter().map(file).collect()
}

fn named(what: &str, holder: &Value, field: &str) -> String {
    format!("{what} {}", go_quote(meta::text(holder, field)))
}

/// Returns the warnings about the volumes of a pod.
pub(super) fn about(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in array(spec, "volumes") {
        let name = go_quote(meta::text(volume, "name"));
        let mut say = |what: &str, files: Vec<File>| {
            let found = overlaps(files).into_iter();
            warnings.extend(found.map(|found| format!("volume {name} ({what}): overlapping paths: {found}")));
        };
        if let Some(map) = given(volume, "configMap") {
            say(&named("ConfigMap", map, "name"), files(map, ""));
        }
        if let Some(secret) = given(volume, "secret") {
            say(&named("Secret", secret, "secretName"), files(secret, ""));
        }
        if let Some(downward) = given(volume, "downwardAPI") {
            say("DownwardAPI", files(downward, ""));
        }
        let Some(projected) = given(volume, "projected") else { continue };
        let empty = |source: &Value| source.as_object().is_none_or(|source| source.values().all(Value::is_null));
        let sources = array(projected, "sources");
        say("Projected", sources.iter().flat_map(projected_files).collect());
        for _ in sources.iter().filter(|source| empty(source)) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
    }
    warnings
}

fn projected_files(source: &Value) -> Vec<File> {
    for (field, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(holder) = given(source, field) {
            return files(holder, &named(what, holder, "name"));
        }
    }
    if let Some(downward) = given(source, "downwardAPI") {
        return files(downward, "DownwardAPI");
    }
    given(source, "serviceAccountToken").map_or_else(Vec::new, |token| {
        vec![File { path: meta::text(token, "path").to_owned(), source: "ServiceAccountToken".to_owned() }]
    })
}

/// Returns each pair of files where one is, contains or is contained in an earlier one.
fn overlaps(files: Vec<File>) -> Vec<String> {
    let mut earlier: Vec<File> = Vec::new();
    let mut found = Vec::new();
    for mut file in files {
        file.path.truncate(file.path.trim_end_matches('/').len());
        let below = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
        let both = earlier.iter().filter(|other| !file.path.is_empty() && !other.path.is_empty());
        let hit = both.filter(|other| below(&other.path, &file.path) || below(&file.path, &other.path));
        found.extend(hit.map(|other| format!("{file} with {other}")));
        earlier.push(file);
    }
    found
}
