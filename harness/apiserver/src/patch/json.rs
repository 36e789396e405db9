//! JSON patch (RFC 6902), with the deviations of upstream's library `gopkg.in/evanphx/json-patch.v4`: negative indexes
//! count from the end, replacing a missing key adds it, and copying a missing key copies `null`.
//! See `jsonPatcher` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use std::borrow::Cow;

use super::super::schema::{FieldValidation, decode_json_patch};
use super::super::status::{Details, Status};
use crate::json::{Map, Value};

/// Largest number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Bytes that the `copy` operations of one patch may add: upstream's limit on request bodies.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Largest depth of the document between operations. Each `move` can nest it deeper, and readers of a document recurse
/// on the stack. Decoding the result enforces the lower limit of stored objects.
const MAX_DEPTH: usize = 512;

/// Number of times that one patch may have the document's depth measured because of its moves.
const MAX_DEPTH_SCANS: u8 = 32;

/// Decodes the body of a JSON patch; returns complaints about unknown and duplicate fields, and the operations.
///
/// # Errors
/// 400 if it is not a list of operations, 413 if the list is too long.
pub(crate) fn decode(body: &[u8], validation: FieldValidation) -> Result<(Vec<String>, Vec<Value>), Status> {
    let decoded = decode_json_patch(body).map_err(|error| match validation {
        FieldValidation::Ignore => Status::bad_request(error.message),
        _ => Status::bad_request(format!("error decoding patch: {error}")),
    })?;
    let operations = match decoded.value {
        Value::Array(operations) => operations,
        _ => Vec::new(),
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        );
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    Ok((decoded.strict.into_iter().map(|e| format!("json patch {e}")).collect(), operations))
}

/// Applies the operations one after the other.
///
/// # Errors
/// 422 if an operation cannot be applied; kube-apiserver does not report which one.
pub(crate) fn apply(document: Value, operations: Vec<Value>) -> Result<Value, Status> {
    let mut patching = PatchState { depth: depth(&document), document, copied: 0, looks: 0 };
    for operation in operations {
        let Value::Object(operation) = operation else { return Err(unprocessable()) };
        patching.step(operation).ok_or_else(unprocessable)?;
    }
    Ok(patching.document)
}

fn unprocessable() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

/// A document between two operations.
struct PatchState {
    document: Value,
    /// Upper bound of the document's depth.
    depth: usize,
    /// Bytes copied so far.
    copied: usize,
    /// Number of times the depth was measured.
    looks: u8,
}

impl PatchState {
    /// Applies one operation; `None` if it cannot be applied.
    fn step(&mut self, mut operation: Map) -> Option<()> {
        let value = operation.remove("value");
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let path = text("path");
        match text("op")? {
            "add" => self.add(path?, value.unwrap_or(Value::Null)),
            "remove" => remove(&mut self.document, path?).map(drop),
            "replace" => {
                let value = value.unwrap_or(Value::Null);
                self.reserve_depth(segments(path?) + depth(&value))?;
                replace(&mut self.document, path?, value)
            }
            "move" => {
                let from = text("from")?;
                let moved = remove(&mut self.document, from)?;
                let mut bound = segments(path?) + self.depth.saturating_sub(segments(from));
                if bound > MAX_DEPTH && self.looks < MAX_DEPTH_SCANS {
                    // The bound still counts parts that were removed: measure the depth.
                    self.looks += 1;
                    self.depth = depth(&self.document);
                    bound = segments(path?) + depth(&moved);
                }
                self.reserve_depth(bound)?;
                add(&mut self.document, path?, moved)
            }
            "copy" => {
                let copied = get(&mut self.document, text("from")?)?.into_owned();
                self.copied += serde_json::to_vec(&copied).map_or(usize::MAX / 2, |text| text.len());
                if self.copied > MAX_COPIED {
                    return None;
                }
                self.add(path?, copied)
            }
            "test" => {
                let value = value.unwrap_or(Value::Null);
                if path?.is_empty() {
                    return (self.document == value).then_some(());
                }
                (*get(&mut self.document, path?)? == value).then_some(())
            }
            _ => None,
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Option<()> {
        self.reserve_depth(segments(path) + depth(&value))?;
        add(&mut self.document, path, value)
    }

    /// Raises the bound of the depth; `None` if the document would be too deep.
    fn reserve_depth(&mut self, bound: usize) -> Option<()> {
        self.depth = self.depth.max(bound);
        (bound <= MAX_DEPTH).then_some(())
    }
}

fn segments(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// Returns the depth of a value; 0 for a scalar.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    deepest
}

/// Returns the container of a path's last segment, and that segment. `None` for the root, which has no container.
fn locate<'d, 'p>(document: &'d mut Value, path: &'p str) -> Option<(&'d mut Value, Cow<'p, str>)> {
    let mut segments = path.split('/').skip(1).peekable();
    let mut container = document;
    let mut last = segments.next()?;
    for segment in segments {
        container = match container {
            Value::Object(map) => map.get_mut(&*unescape(last))?,
            Value::Array(items) => {
                let at = index(last, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        last = segment;
    }
    matches!(container, Value::Object(_) | Value::Array(_)).then_some((container, unescape(last)))
}

fn unescape(segment: &str) -> Cow<'_, str> {
    if segment.contains('~') {
        Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(segment)
    }
}

/// Parses an index; negative ones count from the end. The result may be out of range.
fn index(segment: &str, length: usize) -> Option<usize> {
    let at: i64 = segment.parse().ok()?;
    if at >= 0 { usize::try_from(at).ok() } else { length.checked_sub(usize::try_from(-at).ok()?) }
}

fn get<'d>(document: &'d mut Value, path: &str) -> Option<Cow<'d, Value>> {
    let (container, key) = locate(document, path)?;
    match container {
        Value::Object(map) => Some(map.get(&*key).map_or(Cow::Owned(Value::Null), Cow::Borrowed)),
        Value::Array(items) => items.get(index(&key, items.len())?).map(Cow::Borrowed),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (container, key) = locate(document, path)?;
    match container {
        Value::Object(map) => _ = map.insert(key.into_owned(), value),
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // Negative indexes count from the end of the list after insertion.
            let at = index(&key, items.len() + 1).filter(|&at| at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (container, key) = locate(document, path)?;
    match container {
        Value::Object(map) => map.remove(&*key),
        Value::Array(items) => {
            let at = index(&key, items.len()).filter(|&at| at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return None;
        }
        *document = value;
        return Some(());
    }
    let (container, key) = locate(document, path)?;
    match container {
        Value::Object(map) => _ = map.insert(key.into_owned(), value),
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}
