//! The fixtures that a program passes that does nothing.

use plumbline::fixture::parse;
use plumbline_suite::conformance::idle;

use crate::check;
use crate::layout;
use crate::source::Error;

/// Number of fixtures that run in parallel.
const JOBS: usize = 2;

/// Measures them and writes the file.
pub(crate) fn main() -> Result<bool, Error> {
    let folder = layout::root().join("fixtures");
    let fixtures = parse::load(&folder).map_err(|problems| Error::input("fixtures", problems.to_string()))?;
    let path = folder.join(idle::FILE);
    let passed = idle::passed(&fixtures, JOBS).map_err(|error| Error::Write { path: path.clone(), error })?;
    check::write(&path, &idle::text(&passed)).map(|_| true)
}
