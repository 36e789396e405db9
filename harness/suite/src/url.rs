//! Percent-encoding of path segments and query values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Every character except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes everything but unreserved characters.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
