//! IP addresses and prefixes as Go's `net/netip` reads them, with its errors. PURE.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use crate::field_errors::go_quote;

/// Fields of 16 bits in an IPv6 address.
const FIELDS: usize = 8;

/// A text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct AddressError {
    text: String,
    why: &'static str,
    /// The rest of the text from where it is wrong.
    at: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParseAddr({}): {}", go_quote(&self.text), self.why)?;
        if self.at.is_empty() { Ok(()) } else { write!(f, " (at {})", go_quote(&self.at)) }
    }
}

/// A text that is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("netip.ParsePrefix({}): {fault}", go_quote(text))]
pub(crate) struct PrefixError {
    text: String,
    fault: PrefixFault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum PrefixFault {
    #[error("no '/'")]
    Slash,
    #[error("{0}")]
    Address(#[from] AddressError),
    #[error("IPv6 zones cannot be present in a prefix")]
    Zone,
    #[error("bad bits after slash: {}", go_quote(.0))]
    Bits(String),
    #[error("prefix length out of range")]
    Range,
}

/// The reason why a part of a text is wrong, and the rest of the text from there.
type AddressFault<'t> = (&'static str, &'t str);

/// Parses an address like `netip.ParseAddr`, and returns it and its zone.
pub(crate) fn parse_address(text: &str) -> Result<(IpAddr, &str), AddressError> {
    let parsed = match text.find(['.', ':', '%']).map(|index| text.as_bytes()[index]) {
        Some(b'.') => ipv4(text).map(|ip| (IpAddr::V4(ip), "")),
        Some(b':') => match text.split_once('%') {
            Some((_, "")) => Err(("zone must be a non-empty string", "")),
            Some((address, zone)) => ipv6(address).map(|ip| (IpAddr::V6(ip), zone)),
            None => ipv6(text).map(|ip| (IpAddr::V6(ip), "")),
        },
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    parsed.map_err(|(why, at)| AddressError { text: text.to_owned(), why, at: at.to_owned() })
}

/// Parses an address and a length like `netip.ParsePrefix`.
pub(crate) fn parse_prefix(text: &str) -> Result<(IpAddr, u8), PrefixError> {
    prefix(text).map_err(|fault| PrefixError { text: text.to_owned(), fault })
}

fn prefix(text: &str) -> Result<(IpAddr, u8), PrefixFault> {
    let (address, digits) = text.rsplit_once('/').ok_or(PrefixFault::Slash)?;
    let (ip, zone) = parse_address(address)?;
    if !zone.is_empty() {
        return Err(PrefixFault::Zone);
    }
    let bad = || PrefixFault::Bits(digits.to_owned());
    // Neither signs nor zeros in front.
    if digits.bytes().any(|digit| !digit.is_ascii_digit()) || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(bad());
    }
    let bits: i64 = digits.parse().map_err(|_| bad())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    u8::try_from(bits).ok().filter(|bits| *bits <= most).map(|bits| (ip, bits)).ok_or(PrefixFault::Range)
}

fn ipv4(text: &str) -> Result<Ipv4Addr, AddressFault<'_>> {
    let bytes = text.as_bytes();
    let mut fields = [0_u8; 4];
    let mut field = 0;
    let (mut value, mut digits) = (0_u32, 0);
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                fields[field] = u8::try_from(value).map_err(|_| ("IPv4 field has value >255", ""))?;
            }
            b'.' if index == 0 || index == bytes.len() - 1 || bytes[index - 1] == b'.' => {
                return Err(("IPv4 field must have at least one digit", &text[index..]));
            }
            b'.' if field == 3 => return Err(("IPv4 address too long", "")),
            b'.' => {
                field += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", text.get(index..).unwrap_or_default())),
        }
    }
    if field < 3 { Err(("IPv4 address too short", "")) } else { Ok(fields.into()) }
}

fn ipv6(text: &str) -> Result<Ipv6Addr, AddressFault<'_>> {
    let mut fields = Vec::with_capacity(FIELDS);
    let mut gap = None;
    let mut rest = text;
    if let Some(behind) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = behind;
    }
    while fields.len() < FIELDS && !(rest.is_empty() && gap == Some(fields.len())) {
        let length = rest.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(rest.len());
        if length > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        let Ok(value) = u16::from_str_radix(&rest[..length], 16) else {
            return Err(("each colon-separated field must have at least one digit", rest));
        };
        if rest[length..].starts_with('.') {
            if gap.is_none() && fields.len() != FIELDS - 2 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if fields.len() > FIELDS - 2 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            let [a, b, c, d] = ipv4(rest)?.octets();
            fields.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        fields.push(value);
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
        rest = match rest.strip_prefix(':') {
            None => return Err(("unexpected character, want colon", rest)),
            Some("") => return Err(("colon must be followed by more characters", rest)),
            Some(behind) => behind,
        };
        if let Some(behind) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            gap = Some(fields.len());
            rest = behind;
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match gap {
        None if fields.len() < FIELDS => return Err(("address string too short", "")),
        Some(_) if fields.len() == FIELDS => return Err(("the :: must expand to at least one field of zeros", "")),
        Some(gap) => drop(fields.splice(gap..gap, vec![0; FIELDS - fields.len()])),
        None => {}
    }
    let fields: [u16; FIELDS] = fields.try_into().map_err(|_| ("address string too short", ""))?;
    Ok(fields.into())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.2.3.4")]
    #[case("::")]
    #[case("1::")]
    #[case("::1")]
    #[case("2001:db8::a:1")]
    #[case("1:2:3:4:5:6:7:8")]
    #[case("::ffff:1.2.3.4")]
    #[case("1:2:3:4:5:6:1.2.3.4")]
    fn addresses(#[case] text: &str) {
        assert_eq!(parse_address(text), Ok((text.parse().expect("an address"), "")));
    }

    #[rstest]
    #[case("", "unable to parse IP")]
    #[case("x", "unable to parse IP")]
    #[case("%a", "missing IPv6 address")]
    #[case("1.2.3", "IPv4 address too short")]
    #[case("1.2.3.4.5", "IPv4 address too long")]
    #[case("1.2.3.256", "IPv4 field has value >255")]
    #[case("1.02.3.4", "IPv4 field has octet with leading zero")]
    #[case("1..3.4", "IPv4 field must have at least one digit (at \".3.4\")")]
    #[case("1.2.3.", "IPv4 field must have at least one digit (at \".\")")]
    #[case("1.2.a.4", "unexpected character (at \"a.4\")")]
    #[case(":1", "each colon-separated field must have at least one digit (at \":1\")")]
    #[case("12345::", "each group must have 4 or less digits (at \"12345::\")")]
    #[case("1:2:3", "address string too short")]
    #[case("1::2::3", "multiple :: in address (at \":3\")")]
    #[case("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")")]
    #[case("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros")]
    #[case("1:2:", "colon must be followed by more characters (at \":\")")]
    #[case("1:2x:3", "unexpected character, want colon (at \"x:3\")")]
    #[case("1:1.2.3.4", "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")")]
    #[case("fe80::1%", "zone must be a non-empty string")]
    fn texts_that_are_no_addresses(#[case] text: &str, #[case] why: &str) {
        let error = parse_address(text).map_err(|error| error.to_string());
        assert_eq!(error, Err(format!("ParseAddr(\"{text}\"): {why}")));
    }

    #[rstest]
    #[case("10.0.0.0", "no '/'")]
    #[case("x/8", "ParseAddr(\"x\"): unable to parse IP")]
    #[case("fe80::%a/8", "IPv6 zones cannot be present in a prefix")]
    #[case("10.0.0.0/", "bad bits after slash: \"\"")]
    #[case("10.0.0.0/08", "bad bits after slash: \"08\"")]
    #[case("10.0.0.0/+8", "bad bits after slash: \"+8\"")]
    #[case("10.0.0.0/33", "prefix length out of range")]
    #[case("::/129", "prefix length out of range")]
    fn texts_that_are_no_prefixes(#[case] text: &str, #[case] why: &str) {
        let error = parse_prefix(text).map_err(|error| error.to_string());
        assert_eq!(error, Err(format!("netip.ParsePrefix(\"{text}\"): {why}")));
    }
}
