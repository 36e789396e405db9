//! JSON patch (RFC 6902), with the deviations of upstream's library `gopkg.in/evanphx/json-patch.v4`: negative indexes
//! count from the end, replacing a missing key adds it, and copying a missing key copies `null`.
//! See `jsonPatcher` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use std::borrow::Cow;

use super::super::schema::{FieldValidation, decode_json_patch};
use super::super::status::{Details, Status, go_quote};
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

/// The error of an operation, in the library's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OperationError {
    /// A path does not exist in the document.
    #[error("{0}: missing value")]
    Missing(String),
    /// The value at a path is another one than a `test` asks for.
    #[error("testing value {0} failed: test failed")]
    Test(String),
    #[error("{0}")]
    Other(String),
}

impl OperationError {
    fn within(self, context: &str) -> Self {
        match self {
            Self::Missing(why) => Self::Missing(format!("{context}: {why}")),
            Self::Test(path) => Self::Test(path),
            Self::Other(why) => Self::Other(format!("{context}: {why}")),
        }
    }
}

/// Returns the reply to a PATCH with an operation that cannot be applied; it does not say what is wrong.
pub(crate) fn unprocessable() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

/// Applies the operations one after the other.
///
/// # Errors
/// An operation cannot be applied.
pub(crate) fn apply(document: Value, operations: Vec<Value>) -> Result<Value, OperationError> {
    let mut patching = PatchState { depth: depth(&document), document, copied: 0, looks: 0 };
    for operation in operations {
        let Value::Object(operation) = operation else {
            return Err(OperationError::Other("Unexpected kind: unknown".to_owned()));
        };
        patching.step(operation)?;
    }
    Ok(patching.document)
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
    fn step(&mut self, mut operation: Map) -> Result<(), OperationError> {
        let value = operation.remove("value");
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let kind = text("op").unwrap_or("unknown");
        let missing = |why: &str| OperationError::Missing(format!("{kind} operation {why}"));
        let no_path = || match kind {
            "add" | "remove" | "copy" => missing("failed to decode path"),
            _ => missing("failed to decode path: operation missing path field"),
        };
        let path = || text("path").ok_or_else(no_path);
        let from = || text("from").ok_or_else(|| missing("failed to decode from: operation, missing from field"));
        match kind {
            "add" => {
                let at = path()?;
                self.reserve_depth(segments(at) + value.as_ref().map_or(0, depth))?;
                let lost = || missing(&format!("does not apply: doc is missing path: \"{at}\""));
                let (container, key) = locate(&mut self.document, at).ok_or_else(lost)?;
                add(container, &key, value.unwrap_or(Value::Null))
                    .map_err(|error| error.within(&format!("error in add for path: '{at}'")))
            }
            "remove" => {
                let at = path()?;
                let lost = || missing(&format!("does not apply: doc is missing path: \"{at}\""));
                let (container, key) = locate(&mut self.document, at).ok_or_else(lost)?;
                let removed = remove(container, &key);
                removed.map(drop).map_err(|error| error.within(&format!("error in remove for path: '{at}'")))
            }
            "replace" => self.replace(path()?, value.unwrap_or(Value::Null)),
            "move" => self.move_value(from()?, path),
            "copy" => self.copy_value(from()?, path),
            "test" => self.test(path()?, value.as_ref()),
            _ => Err(OperationError::Other(format!("Unexpected kind: {kind}"))),
        }
    }

    fn replace(&mut self, path: &str, value: Value) -> Result<(), OperationError> {
        self.reserve_depth(segments(path) + depth(&value))?;
        if path.is_empty() {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                let why = "replace operation value must be object or array: %!w(<nil>)";
                return Err(OperationError::Other(why.to_owned()));
            }
            self.document = value;
            return Ok(());
        }
        let missing = |what: &str| {
            OperationError::Missing(format!("replace operation does not apply: doc is missing {what}: {path}"))
        };
        let (container, key) = locate(&mut self.document, path).ok_or_else(|| missing("path"))?;
        match container {
            Value::Array(items) => {
                let at = index(&key, items.len()).map_err(|_| missing("key"))?;
                *items.get_mut(at).ok_or_else(|| missing("key"))? = value;
            }
            container => set(container, &key, value),
        }
        Ok(())
    }

    fn move_value<'p>(
        &mut self,
        from: &str,
        path: impl Fn() -> Result<&'p str, OperationError>,
    ) -> Result<(), OperationError> {
        let missing =
            |what: &str| OperationError::Missing(format!("move operation does not apply: doc is missing {what}"));
        let lost = || missing(&format!("from path: {from}"));
        let (container, key) = locate(&mut self.document, from).ok_or_else(lost)?;
        let moved =
            remove(container, &key).map_err(|error| error.within(&format!("error in move for path: '{key}'")))?;
        let path = path()?;
        let mut bound = segments(path) + self.depth.saturating_sub(segments(from));
        if bound > MAX_DEPTH && self.looks < MAX_DEPTH_SCANS {
            // The bound still counts parts that were removed: measure the depth.
            self.looks += 1;
            self.depth = depth(&self.document);
            bound = segments(path) + depth(&moved);
        }
        self.reserve_depth(bound)?;
        let lost = || missing(&format!("destination path: {path}"));
        let (container, key) = locate(&mut self.document, path).ok_or_else(lost)?;
        add(container, &key, moved).map_err(|error| error.within(&format!("error in move for path: '{path}'")))
    }

    fn copy_value<'p>(
        &mut self,
        from: &str,
        path: impl Fn() -> Result<&'p str, OperationError>,
    ) -> Result<(), OperationError> {
        let missing =
            |what: &str| OperationError::Missing(format!("copy operation does not apply: doc is missing {what}"));
        let lost = || missing(&format!("from path: {from}"));
        let (container, key) = locate(&mut self.document, from).ok_or_else(lost)?;
        let copied =
            get(container, &key).map_err(|error| error.within(&format!("error in copy for from: '{from}'")))?;
        let copied = copied.cloned().unwrap_or_default();
        let path = path()?;
        self.copied += serde_json::to_vec(&copied).map_or(usize::MAX / 2, |text| text.len());
        if self.copied > MAX_COPIED {
            let copied = self.copied;
            return Err(OperationError::Other(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
            )));
        }
        self.reserve_depth(segments(path) + depth(&copied))?;
        let lost = || missing(&format!("destination path: {path}"));
        let (container, key) = locate(&mut self.document, path).ok_or_else(lost)?;
        add(container, &key, copied).map_err(|error| error.within("error while adding value during copy"))
    }

    fn test(&mut self, path: &str, value: Option<&Value>) -> Result<(), OperationError> {
        let wanted = value.unwrap_or(&Value::Null);
        let found = if path.is_empty() {
            Some(&self.document)
        } else {
            let lost = || OperationError::Missing(format!("test operation does not apply: is missing path: {path}"));
            let (container, key) = locate(&mut self.document, path).ok_or_else(lost)?;
            get(container, &key).map_err(|error| error.within(&format!("error in test for path: '{path}'")))?
        };
        let same = found.unwrap_or(&Value::Null) == wanted;
        same.then_some(()).ok_or_else(|| OperationError::Test(path.to_owned()))
    }

    /// Raises the bound of the depth.
    fn reserve_depth(&mut self, bound: usize) -> Result<(), OperationError> {
        self.depth = self.depth.max(bound);
        let deep = || OperationError::Other("exceeded max depth".to_owned());
        (bound <= MAX_DEPTH).then_some(()).ok_or_else(deep)
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
                let at = index(last, items.len()).ok()?;
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

/// Parses an index; negative ones count from the end. The result may be too large.
fn index(segment: &str, length: usize) -> Result<usize, OperationError> {
    let at: i64 = segment.parse().map_err(|error: std::num::ParseIntError| {
        let out = matches!(error.kind(), std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow);
        let why = if out { "value out of range" } else { "invalid syntax" };
        OperationError::Other(format!("strconv.Atoi: parsing {}: {why}", go_quote(segment)))
    })?;
    let magnitude = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    if at >= 0 { Ok(magnitude) } else { length.checked_sub(magnitude).ok_or_else(|| no_index(segment)) }
}

fn no_index(segment: &str) -> OperationError {
    let at = segment.parse::<i64>().map_or_else(|_| segment.to_owned(), |at| at.to_string());
    OperationError::Other(format!("Unable to access invalid index: {at}: invalid index referenced"))
}

/// Returns the value at a key; `None` for a missing member of an object.
fn get<'d>(container: &'d Value, key: &str) -> Result<Option<&'d Value>, OperationError> {
    match container {
        Value::Array(items) => {
            let at = index(key, items.len())?;
            items.get(at).map(Some).ok_or_else(|| no_index(key))
        }
        other => Ok(other.get(key)),
    }
}

fn set(container: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = container {
        map.insert(key, value);
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), OperationError> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let improper = format!("value was not a proper array index: '{key}'");
            // Negative indexes count from the end of the list after insertion.
            let at = index(key, items.len() + 1).map_err(|error| match key.parse::<i64>() {
                Ok(_) => error,
                Err(_) => error.within(&improper),
            })?;
            if at > items.len() {
                return Err(no_index(key));
            }
            items.insert(at, value);
        }
        container => set(container, key, value),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, OperationError> {
    match container {
        Value::Array(items) => {
            let at = index(key, items.len())?;
            if at >= items.len() {
                return Err(no_index(key));
            }
            Ok(items.remove(at))
        }
        other => {
            let removed = other.as_object_mut().and_then(|map| map.remove(key));
            removed.ok_or_else(|| OperationError::Missing(format!("Unable to remove nonexistent key: {key}")))
        }
    }
}
