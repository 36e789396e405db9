//! Reads small YAML files as strictly as fixtures: problems have file, line and field.

use std::fs;
use std::path::Path;

use plumbline::fixture::decode::{Context, Cursor, Fields};
use plumbline::fixture::error::{Fail, Problem, Problems};
use plumbline::fixture::yaml;

/// Reads `file` with `read`, which records problems at the cursor and returns `None` only if there are any.
pub(crate) fn load<T>(file: &Path, read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> Result<T, Problems> {
    match fs::read_to_string(file) {
        Ok(text) => parse(file, &text, read),
        Err(error) => Err(whole(file, format!("unable to read: {error}"))),
    }
}

/// Like [`load`], for a text that is already in memory.
pub(crate) fn parse<T>(file: &Path, text: &str, read: impl FnOnce(&Cursor<'_>) -> Option<T>) -> Result<T, Problems> {
    let problem = |line, column, path, message, hint| Problem {
        file: file.to_owned(),
        line,
        column,
        path,
        row: None,
        message,
        hint,
    };
    let root = yaml::parse(text).map_err(|yaml::SyntaxError { at, fail }| {
        Problems(vec![problem(at.line, at.column, String::new(), fail.message, fail.hint)])
    })?;
    let context = Context::default();
    let value = read(&Cursor::root(&root, &context));
    let notes = context.into_notes();
    match value {
        Some(value) if notes.is_empty() => Ok(value),
        _ if notes.is_empty() => Err(whole(file, "unable to read the file".to_owned())),
        _ => {
            let problems =
                notes.into_iter().map(|note| problem(note.at.line, note.at.column, note.path, note.message, note.hint));
            Err(Problems(problems.collect()))
        }
    }
}

fn whole(file: &Path, message: String) -> Problems {
    Problems(vec![Problem::of_file(file, message, None)])
}

/// Reads a text that is not blank.
pub(crate) fn words(fields: &Fields<'_>, name: &str) -> Option<String> {
    let cursor = fields.get(name)?;
    let text = cursor.words()?;
    if text.trim().is_empty() {
        cursor.fail(Fail::new("the text is empty"));
        return None;
    }
    Some(text)
}
