//! JSON patch (RFC 6902), with the liberties of the library that the real server uses: negative indexes count from the
//! end, replacing a missing key adds it, and copying one that is missing copies `null`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::super::schema::{FieldValidation, decode_json_patch};
use super::super::status::{Details, Status};

/// Most operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Reads the body of a JSON patch: unknown and duplicate fields, and the operations.
///
/// # Errors
/// 400 if it is no list of operations, 413 if the list is too long.
pub fn decode(body: &[u8], validation: FieldValidation) -> Result<(Vec<String>, Vec<Value>), Status> {
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
/// 422 if one of them cannot be applied; the real server does not say which.
pub fn apply(document: Value, operations: Vec<Value>) -> Result<Value, Status> {
    let mut document = document;
    for operation in operations {
        let Value::Object(operation) = operation else { return Err(refused()) };
        step(&mut document, operation).ok_or_else(refused)?;
    }
    Ok(document)
}

fn refused() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

/// One operation; `None` if it cannot be applied.
fn step(document: &mut Value, mut operation: Map<String, Value>) -> Option<()> {
    let value = operation.remove("value");
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path");
    match text("op")? {
        "add" => add(document, path?, value.unwrap_or(Value::Null)),
        "remove" => remove(document, path?).map(drop),
        "replace" => replace(document, path?, value.unwrap_or(Value::Null)),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path?, moved)
        }
        "copy" => {
            let copied = get(document, text("from")?)?.into_owned();
            add(document, path?, copied)
        }
        "test" => {
            let value = value.unwrap_or(Value::Null);
            if path?.is_empty() {
                return (*document == value).then_some(());
            }
            (*get(document, path?)? == value).then_some(())
        }
        _ => None,
    }
}

/// The container that a path's last segment lies in, and that segment. The document itself is in no container.
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

/// An index, negative ones counted from the end; may still be out of range.
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
            // Counted from the end of the list as it will be.
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
