//! The patched document as error messages show it: the order of keys depends on where the patch applied.
//! See `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
//!
//! Go prints untouched parts in the field order of structs; parts that the patch changed or added have sorted keys.

use std::collections::BTreeMap;

use super::super::schema::{Schema, TypeKind, TypeRef, json_patch_values};
use crate::json::fields::str_field;
use crate::json::{Key, Map, Value};

/// The parts of a document that a patch touched.
#[derive(Debug)]
pub(super) enum PatchTrace {
    /// The patch changed these parts of an object or list.
    Changed(BTreeMap<Key, PatchTrace>),
    /// The patch added this part; with its original text where that matters.
    Added(Option<String>),
}

impl PatchTrace {
    /// Returns the parts of a document that a merge patch touches.
    pub(super) fn by_merge(document: &Value, patch: &Map) -> Self {
        let part = |(key, value): (&Key, &Value)| {
            let inside = match (value, document.get(key)) {
                (Value::Object(patch), Some(current @ Value::Object(_))) => Self::by_merge(current, patch),
                _ => Self::Added(None),
            };
            (key.clone(), inside)
        };
        Self::Changed(patch.iter().map(part).collect())
    }

    /// Returns the parts of a document that the operations of a JSON patch touch. What an operation moves or copies
    /// keeps the text that it has in `document`.
    pub(super) fn by_operations(schema: &Schema, document: &Value, operations: &[Value], body: &[u8]) -> Self {
        let sent = json_patch_values(body);
        let taken = |operation: &Value| {
            let from = operation.get("from").and_then(Value::as_str)?;
            let value = document.pointer(from)?;
            let mut segments = from.split('/').skip(1);
            let ty = segments.try_fold(schema.root(), |ty, segment| match schema.shape(ty) {
                TypeKind::List(list) => Some(list.items),
                _ => schema.field_type(ty, &unescape(segment)),
            });
            let mut out = String::new();
            write(&mut out, schema, ty, value, None);
            Some(out)
        };
        let mut root = Self::Changed(BTreeMap::new());
        for (at, operation) in operations.iter().enumerate() {
            for name in ["from", "path"] {
                let Some(path) = operation.get(name).and_then(Value::as_str) else { continue };
                let mut node = &mut root;
                let mut segments = path.split('/').skip(1).peekable();
                while let Some(segment) = segments.next() {
                    let Self::Changed(parts) = node else { break };
                    let last = segments.peek().is_none();
                    let moves = matches!(str_field(operation, "op"), "move" | "copy");
                    let brings = last && name == "path" && (moves || operation.get("value").is_some());
                    if last && !brings {
                        break;
                    }
                    let key = unescape(segment);
                    node = parts.entry(key.into()).or_insert(Self::Changed(BTreeMap::new()));
                    if brings {
                        // The last value of a place counts.
                        *node = Self::Added(if moves { taken(operation) } else { sent.get(at).cloned().flatten() });
                    }
                }
            }
        }
        root
    }
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Formats the document as JSON text.
pub(super) fn show(schema: &Schema, document: &Value, touched: &PatchTrace) -> String {
    let mut out = String::new();
    write(&mut out, schema, Some(schema.root()), document, Some(touched));
    if out.contains(['<', '>', '&']) {
        out = out.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    }
    out
}

fn write(out: &mut String, schema: &Schema, ty: Option<TypeRef>, value: &Value, touched: Option<&PatchTrace>) {
    if let Some(PatchTrace::Added(Some(sent))) = touched
        && serde_json::from_str::<Value>(sent).is_ok_and(|sent| sent == *value)
    {
        out.push_str(sent);
        return;
    }
    let part = |key: &str| match touched {
        Some(PatchTrace::Changed(parts)) => parts.get(key),
        other => other,
    };
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&Key> = map.keys().collect();
            // Custom resources are maps in Go, whose keys are sorted.
            let ordered = touched.is_none() && !schema.is_structural();
            if let (true, Some(TypeKind::Struct(shape))) = (ordered, ty.map(|ty| schema.shape(ty))) {
                keys.sort_by_key(|key| shape.field(key).map_or(u16::MAX, |f| f.order));
            }
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                let child = ty.and_then(|ty| schema.field_type(ty, key));
                write(out, schema, child, &map[key], part(key));
            }
            out.push('}');
        }
        Value::Array(items) => {
            let item_type = match ty.map(|ty| schema.shape(ty)) {
                Some(TypeKind::List(list)) => Some(list.items),
                _ => None,
            };
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(out, schema, item_type, item, part(&i.to_string()));
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}
