//! DER, the encoding of certificates: reads elements one after the other, without recursion and without copies. PURE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Tag of `SEQUENCE`.
pub(super) const SEQUENCE: u8 = 0x30;
/// Tag of `SET`.
pub(super) const SET: u8 = 0x31;
/// Tag of `INTEGER`.
pub(super) const INTEGER: u8 = 0x02;
/// Tag of `BIT STRING`.
pub(super) const BIT_STRING: u8 = 0x03;
/// Tag of `OCTET STRING`.
pub(super) const OCTET_STRING: u8 = 0x04;
/// Tag of `OBJECT IDENTIFIER`.
pub(super) const OID: u8 = 0x06;

/// The error of data that is not DER, or not of the expected structure. Go names the place, which clients do not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("asn1: syntax error: data truncated")]
pub(crate) struct Malformed;

/// The rest of a sequence of elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// One element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    /// The value.
    pub(super) content: &'a [u8],
    /// Tag, length and value.
    pub(super) whole: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns true at the end.
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Reads an element of any type.
    pub(super) fn any(&mut self) -> Result<Element<'a>, Malformed> {
        let data = self.0;
        let (&tag, rest) = data.split_first().ok_or(Malformed)?;
        let (&short, rest) = rest.split_first().ok_or(Malformed)?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f)).ok_or(Malformed)?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return Err(Malformed),
        };
        let (content, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Element { tag, content, whole: &data[..data.len() - rest.len()] })
    }

    /// Reads an element with this tag.
    pub(super) fn element(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        self.any().and_then(|element| if element.tag == tag { Ok(element) } else { Err(Malformed) })
    }

    /// Reads an element with this tag, whose content is a sequence of elements.
    pub(super) fn inner(&mut self, tag: u8) -> Result<Self, Malformed> {
        self.element(tag).map(|element| Self(element.content))
    }

    /// Reads an element if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        if self.0.first() == Some(&tag) { self.any().map(Some) } else { Ok(None) }
    }

    /// Reads the bits of a `BIT STRING` of whole bytes.
    pub(super) fn bits(&mut self) -> Result<&'a [u8], Malformed> {
        match self.element(BIT_STRING)?.content.split_first() {
            Some((0, bits)) => Ok(bits),
            _ => Err(Malformed),
        }
    }
}

/// Returns the bytes of the first PEM block of this type in a text.
pub(crate) fn pem_block(text: &str, kind: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {kind}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    let body: String = body.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::short(&[0x04, 2, 7, 8], Some(&[7, 8][..]))]
    #[case::long(&[0x04, 0x81, 1, 7], Some(&[7][..]))]
    #[case::empty(&[], None)]
    #[case::no_length(&[0x04], None)]
    #[case::cut(&[0x04, 3, 7, 8], None)]
    #[case::endless(&[0x04, 0x80, 7, 0, 0], None)]
    #[case::huge(&[0x04, 0x84, 0xff, 0xff, 0xff, 0xff, 0], None)]
    #[case::larger(&[0x04, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None)]
    fn elements(#[case] data: &[u8], #[case] content: Option<&[u8]>) {
        assert_eq!(Reader(data).any().ok().map(|element| element.content), content);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader(&data);
            while reader.any().is_ok() {}
        }
    }
}
