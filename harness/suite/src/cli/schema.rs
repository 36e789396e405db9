//! `plumbline schema`: the JSON Schema of fixtures.

use std::io::Write as _;

use super::error::CliError;
use crate::exit::Exit;
use crate::fixtures::json_schema;

/// Prints the schema.
pub(super) fn main() -> Result<Exit, CliError> {
    writeln!(super::streams::stdout(), "{:#}", json_schema::document())?;
    Ok(Exit::Ok)
}
