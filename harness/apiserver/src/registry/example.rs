//! `example.k8s.io/v1` Note: the example of CONTRIBUTING.md, compiled for tests only.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{object_or_default, spec_of, str_field, value_default};
use crate::json::{Map, Value};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;

/// The resource `notes` of `example.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    let rules = Generic { generation: Generation::Spec, status: true, ..Generic::NEW };
    resource("example.k8s.io", "v1", "notes", "Note", "io.k8s.api.example.v1.Note")
        .short(&["nt"])
        .status()
        .hash("bm90ZXMvdjE=")
        .fields(&[("spec.priority", "Normal")])
        .rules(KindStrategy::new(rules, defaults).check_with(validate).check_update_with(validate_update))
        .columns(COLUMNS)
}

/// Defaults: `SetDefaults_Note` of `pkg/apis/example/v1/defaults.go`.
fn defaults(note: &mut Map) {
    if let Some(spec) = object_or_default(note, "spec") {
        value_default(spec, "priority", "Normal");
    }
}

/// Validates a note, except for its metadata: `ValidateNote` of `pkg/apis/example/validation/validation.go`.
fn validate(note: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    checks::one_of(spec_of(note), "priority", &["High", "Normal"], &Path::new("spec"), &mut errors);
    errors
}

/// Validates an update of a note, in addition to [`validate`].
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if str_field(spec_of(new), "topic") != str_field(spec_of(old), "topic") {
        errors.forbidden(&Path::new("spec").child("topic"), "may not be changed in an update.");
    }
    errors
}

/// The columns of `notes`: `printNote` of `pkg/printers/internalversion/printers.go`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Priority",
        Description::Field("api.example.v1.NoteSpec", "priority"),
        CellSource::Text("/spec/priority", ""),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_note_has_all_that_the_manual_promises() {
        let resource = definition().build();
        let mut note = json!({"metadata": {"name": "n", "namespace": "d"}});
        resource.strategy.default(&mut note);
        assert_eq!(note["spec"], json!({"priority": "Normal"}));
        assert_eq!(texts(&resource.strategy.validate(&note)), [""; 0]);
        let mut wrong = note.clone();
        wrong["spec"] = json!({"priority": "Low"});
        let why = r#"spec.priority: Unsupported value: "Low": supported values: "High", "Normal""#;
        assert_eq!(texts(&resource.strategy.validate(&wrong)), [why]);
        let mut moved = note.clone();
        moved["spec"]["topic"] = "other".into();
        moved["metadata"]["resourceVersion"] = "1".into();
        note["metadata"]["resourceVersion"] = "1".into();
        let why = "spec.topic: Forbidden: may not be changed in an update.";
        assert_eq!(texts(&resource.strategy.validate_update(&moved, &note)), [why]);
        assert!(resource.reset_fields.of("").is_some() && resource.reset_fields.of("status").is_some());
    }

    #[test]
    fn the_manual_shows_this_file() {
        let file = include_str!("example.rs");
        let (code, _tests) = file.split_once("\n#[cfg(test)]\n").expect("tests at the end");
        let (_doc, code) = code.split_once("\n\n").expect("a module doc");
        let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../CONTRIBUTING.md"));
        let manual = manual.expect("the manual of the clone, which is not in the package");
        assert!(manual.contains(&format!("```rust\n{code}```\n")), "copy example.rs to CONTRIBUTING.md");
    }
}
