//! `plumbline schema`: the JSON Schema of fixtures.

use std::io::Write as _;

use super::CliError;
use crate::exit::Exit;
use crate::fixtures::json_schema;

/// Prints the schema.
pub(super) fn main() -> Result<Exit, CliError> {
    writeln!(super::stdout(), "{:#}", json_schema::document())?;
    Ok(Exit::Ok)
}
