//! A reader of Kubernetes' protobuf encoding: iterates over the fields of a message and borrows from its bytes.
//!
//! No schema is compiled. A view names the few field numbers that it reads (from the `generated.proto` of its API
//! group); all other fields are skipped. Kubernetes never changes the meaning of a field number or wire type.

use std::borrow::Cow;

use jiff::Timestamp;

/// Prefix of every protobuf body and every object in a watch.
pub const MAGIC: &[u8] = b"k8s\0";

/// Errors of decoding a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProtoError {
    /// The bytes end within a field.
    #[error("protobuf: the message ends within a field")]
    Torn,
    /// A number has more than 64 bits, or a field has a wire type that proto2 and proto3 do not use.
    #[error("protobuf: field {0} cannot be read")]
    Field(u32),
    /// A field has a type other than expected.
    #[error("protobuf: a field has another type than expected")]
    Type,
    /// The four-byte prefix of every Kubernetes message is missing.
    #[error("protobuf: not a Kubernetes message")]
    Magic,
}

/// The value of one field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldValue<'a> {
    /// An integer or a boolean.
    Number(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// Four or eight bytes; no view reads such a field.
    Fixed,
}

impl<'a> FieldValue<'a> {
    /// Returns the bytes.
    pub fn bytes(self) -> Result<&'a [u8], ProtoError> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(ProtoError::Type) }
    }

    /// Returns a string. Go accepts strings that are not UTF-8. The server replaces invalid bytes in JSON; here they
    /// are replaced too, so that one bad object cannot make a whole list unreadable.
    pub fn text(self) -> Result<Cow<'a, str>, ProtoError> {
        self.bytes().map(String::from_utf8_lossy)
    }

    /// Returns the fields of a message.
    pub fn message(self) -> Result<Fields<'a>, ProtoError> {
        self.bytes().map(Fields::new)
    }

    /// Returns a signed integer; negative ones are encoded in two's complement.
    pub fn integer(self) -> Result<i64, ProtoError> {
        if let Self::Number(number) = self { Ok(number.cast_signed()) } else { Err(ProtoError::Type) }
    }

    /// Returns a signed 32-bit integer, truncated as Go does.
    pub fn integer32(self) -> Result<i32, ProtoError> {
        self.integer().map(|number| number as i32)
    }

    /// Returns a boolean.
    pub fn flag(self) -> Result<bool, ProtoError> {
        self.integer().map(|number| number != 0)
    }

    /// Returns a `metav1.Time` in whole seconds; an empty message is `None`.
    pub fn time(self) -> Result<Option<Timestamp>, ProtoError> {
        let mut seconds = None;
        for field in self.message()? {
            if let (1, value) = field? {
                seconds = Some(value.integer()?);
            }
        }
        Ok(seconds.map(clamped))
    }
}

/// Returns the time `seconds` after the Unix epoch, clamped to the range of [`Timestamp`], which ends a day before
/// Go's.
pub fn clamped(seconds: i64) -> Timestamp {
    let seconds = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(seconds).unwrap_or_default()
}

/// Iterates over the fields of a message in the order of their encoding, with their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Creates an iterator over the fields of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn next_field(&mut self) -> Result<(u32, FieldValue<'a>), ProtoError> {
        let (tag, rest) = varint(self.rest).map_err(|failed| failed.in_field(0))?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtoError::Field(0))?;
        self.rest = rest;
        let value = match tag & 7 {
            0 => {
                let (value, rest) = varint(self.rest).map_err(|failed| failed.in_field(number))?;
                self.rest = rest;
                FieldValue::Number(value)
            }
            2 => {
                let (length, rest) = varint(self.rest).map_err(|failed| failed.in_field(number))?;
                self.rest = rest;
                FieldValue::Bytes(self.take(usize::try_from(length).map_err(|_| ProtoError::Torn)?)?)
            }
            1 => self.take(8).map(|_| FieldValue::Fixed)?,
            5 => self.take(4).map(|_| FieldValue::Fixed)?,
            _ => return Err(ProtoError::Field(number)),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtoError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtoError::Torn)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[expect(clippy::copy_iterator, reason = "a small slice; some messages are iterated twice")]
impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, FieldValue<'a>), ProtoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Errors of decoding a varint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VarintError {
    /// The bytes end too early; more may follow.
    Torn,
    /// The number has more than 64 bits.
    TooLong,
}

impl VarintError {
    fn in_field(self, number: u32) -> ProtoError {
        match self {
            Self::Torn => ProtoError::Torn,
            Self::TooLong => ProtoError::Field(number),
        }
    }
}

/// Decodes the varint at the start of `bytes`; returns it with the remaining bytes.
///
/// # Errors
/// [`VarintError`] if there is no complete number.
pub fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), VarintError> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        if index == 9 && *byte > 1 {
            break;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[index + 1..]));
        }
    }
    Err(if bytes.len() < 10 { VarintError::Torn } else { VarintError::TooLong })
}

/// Returns the kind and the message in an envelope: [`MAGIC`], then a `runtime.Unknown`. Bodies and objects in a watch
/// are such envelopes.
///
/// # Errors
/// [`ProtoError`] if the bytes are not such an envelope.
pub fn unwrap_envelope(envelope: &[u8]) -> Result<(Cow<'_, str>, &[u8]), ProtoError> {
    let envelope = envelope.strip_prefix(MAGIC).ok_or(ProtoError::Magic)?;
    let (mut kind, mut raw): (_, &[u8]) = (Cow::default(), &[]);
    for field in Fields::new(envelope) {
        match field? {
            (1, type_meta) => {
                for field in type_meta.message()? {
                    if let (2, name) = field? {
                        kind = name.text()?;
                    }
                }
            }
            (2, value) => raw = value.bytes()?,
            _ => {}
        }
    }
    Ok((kind, raw))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// A message under construction.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Message(pub(crate) Vec<u8>);

    impl Message {
        fn varint(mut self, mut number: u64) -> Self {
            while number >= 0x80 {
                self.0.push(number as u8 | 0x80);
                number >>= 7;
            }
            self.0.push(number as u8);
            self
        }

        pub(crate) fn number(self, field: u32, number: i64) -> Self {
            self.varint(u64::from(field) << 3).varint(number.cast_unsigned())
        }

        pub(crate) fn bytes(self, field: u32, bytes: &[u8]) -> Self {
            let mut message = self.varint(u64::from(field) << 3 | 2).varint(bytes.len() as u64);
            message.0.extend_from_slice(bytes);
            message
        }

        pub(crate) fn text(self, field: u32, text: &str) -> Self {
            self.bytes(field, text.as_bytes())
        }

        pub(crate) fn message(self, field: u32, message: Self) -> Self {
            self.bytes(field, &message.0)
        }

        /// Returns the message in an envelope, as a body.
        pub(crate) fn sealed(self, kind: &str) -> Vec<u8> {
            let type_meta = Self::default().text(1, "v1").text(2, kind);
            [MAGIC, &Self::default().message(1, type_meta).bytes(2, &self.0).0].concat()
        }
    }

    #[test]
    fn unknown_fields_of_any_type_are_skipped() {
        let mut bytes = Message::default().number(1, -5).text(2, "two").0;
        bytes.extend([3 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 4 << 3 | 5, 0, 0, 0, 0]);
        let fields: Vec<_> = Fields::new(&bytes).collect::<Result<_, _>>().unwrap();
        let numbers: Vec<u32> = fields.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!((fields[0].1.integer(), fields[1].1.text()), (Ok(-5), Ok("two".into())));
        assert_eq!((fields[0].1.text(), fields[1].1.integer()), (Err(ProtoError::Type), Err(ProtoError::Type)));
    }

    #[rstest]
    #[case::within_the_tag(&[0x80], ProtoError::Torn)]
    #[case::within_the_number(&[0x08, 0xff], ProtoError::Torn)]
    #[case::within_the_text(&[0x0a, 5, b'a'], ProtoError::Torn)]
    #[case::a_group(&[0x0b], ProtoError::Field(1))]
    #[case::more_than_64_bits(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        ProtoError::Field(1))]
    #[case::a_length_beyond_memory(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ProtoError::Torn)]
    fn broken_messages_end_with_the_error(#[case] bytes: &[u8], #[case] error: ProtoError) {
        let fields: Vec<_> = Fields::new(bytes).collect();
        assert_eq!(fields, [Err(error)]);
    }

    #[test]
    fn times_are_whole_seconds_and_an_empty_one_is_none() {
        let time = Message::default().number(1, 90).number(2, 5).0;
        assert_eq!(FieldValue::Bytes(&time).time().unwrap().unwrap().as_second(), 90);
        assert_eq!(FieldValue::Bytes(&[]).time(), Ok(None));
    }

    #[test]
    fn envelopes_unwrap_envelope() {
        let body = Message::default().text(1, "x").sealed("PodList");
        let (kind, raw) = unwrap_envelope(&body).unwrap();
        assert_eq!((&*kind, raw), ("PodList", Message::default().text(1, "x").0.as_slice()));
        assert_eq!(unwrap_envelope(b"{}"), Err(ProtoError::Magic));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_loop(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Fields::new(&bytes).count() <= bytes.len());
            let _ = unwrap_envelope(&bytes);
        }

        #[test]
        fn numbers_survive(number in any::<u64>()) {
            let bytes = Message::default().varint(number).0;
            prop_assert_eq!(varint(&bytes), Ok((number, &[][..])));
        }
    }
}
