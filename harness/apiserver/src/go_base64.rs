//! Base 64 as Go's `encoding/base64` reads it with `StdEncoding`: line feeds and carriage returns are skipped, and the
//! unused bits of the last character may be set. PURE.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Decodes a text.
///
/// # Errors
/// The text is not base 64; the number is the position of the byte that Go names.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    check(text)?;
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    LENIENT.decode(joined).map_err(|_| text.len())
}

/// Returns a text as Go encodes what it decodes from it.
///
/// # Errors
/// As those of [`decode`].
pub(crate) fn canonical(text: &str) -> Result<String, usize> {
    decode(text).map(|bytes| STANDARD.encode(bytes))
}

fn check(text: &str) -> Result<(), usize> {
    let mut length = 0_usize;
    let mut padding = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => continue,
            b'=' if length % 4 >= 2 => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => {}
            _ => return Err(at),
        }
        length += 1;
        if padding > 2 {
            return Err(at);
        }
    }
    match length % 4 {
        0 => Ok(()),
        // Go reports misplaced padding at the end of the text, and missing characters at the start of their group.
        _ if padding > 0 => Err(text.len()),
        rest => Err(text.len() - rest),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("W10=", Ok("[]"))]
    #[case::line_feeds("W1\n0=\n", Ok("[]"))]
    #[case::carriage_returns("W1\r\n0=\r\n", Ok("[]"))]
    #[case::unused_bits("YR==", Ok("a"))]
    #[case::nothing("", Ok(""))]
    #[case::spaces("W1 0=", Err(2))]
    #[case::no_padding("W10", Err(0))]
    #[case::url_alphabet("_w==", Err(0))]
    fn texts(#[case] text: &str, #[case] expected: Result<&str, usize>) {
        assert_eq!(decode(text), expected.map(|text| text.as_bytes().to_vec()));
    }

    #[test]
    fn canonical_texts_have_no_line_feeds() {
        assert_eq!(canonical("YW\nJj\n"), Ok("YWJj".to_owned()));
        assert_eq!(canonical("YR=="), Ok("YQ==".to_owned()));
    }
}
