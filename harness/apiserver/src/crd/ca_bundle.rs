//! Validity of the certificates of a conversion webhook's authorities. Follows `ValidateCABundle` in
//! `staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go`. PURE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::go_base64;
use crate::json::Value;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// Returns the reason why the bundle of a definition's conversion webhook is unusable; `None` without a bundle.
pub(super) fn error_in(definition: &Value) -> Option<String> {
    let bundle = definition.pointer("/spec/conversion/webhook/clientConfig/caBundle").and_then(Value::as_str)?;
    error(&go_base64::decode(bundle).unwrap_or_default())
}

/// Returns the reason why a bundle is unusable. An empty one means the system's authorities.
pub(super) fn error(bundle: &[u8]) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let failed = |why: &str| Some(format!("unable to load root certificates: {why}"));
    let text = String::from_utf8_lossy(bundle);
    let mut rest = &*text;
    let mut blocks = 0;
    let mut malformed = false;
    while let Some((kind, body, after)) = next_block(rest) {
        rest = after;
        blocks += 1;
        if kind != "CERTIFICATE" || body.contains(':') {
            continue;
        }
        let joined: String = body.split_whitespace().collect();
        match STANDARD.decode(joined) {
            Ok(der) if is_sequence(&der) => return None,
            _ => malformed = true,
        }
    }
    match (malformed, blocks) {
        (true, _) => failed("failed to parse certificate: x509: malformed certificate"),
        (false, 0) => failed("unable to parse bytes as PEM block"),
        (false, _) => failed("no valid certificate authority data seen"),
    }
}

/// Returns the kind and the body of the first PEM block, and the text after it.
fn next_block(text: &str) -> Option<(&str, &str, &str)> {
    let (_, after) = text.split_once(BEGIN)?;
    let (kind, after) = after.split_once(DASHES)?;
    let end = format!("-----END {kind}-----");
    let (body, after) = after.split_once(&*end)?;
    Some((kind, body, after))
}

/// Returns true if the bytes are one DER sequence that contains a sequence, as certificates do. Other faults of a
/// certificate show when it is used.
fn is_sequence(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    let Some((&SEQUENCE, rest)) = der.split_first() else { return false };
    let Some((&first, rest)) = rest.split_first() else { return false };
    let (length, content) = match usize::from(first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let count = long - 0x80;
            if count == 0 || count > 4 || rest.len() < count {
                return false;
            }
            let (bytes, content) = rest.split_at(count);
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), content)
        }
    };
    content.len() == length && content.first() == Some(&SEQUENCE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("", None)]
    #[case::text("invalid", Some("unable to load root certificates: unable to parse bytes as PEM block"))]
    #[case::other(
        "-----BEGIN KEY-----\nMAA=\n-----END KEY-----",
        Some("unable to load root certificates: no valid certificate authority data seen")
    )]
    #[case::malformed(
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        Some("unable to load root certificates: failed to parse certificate: x509: malformed certificate")
    )]
    #[case::open(
        "-----BEGIN CERTIFICATE-----\nMAA=",
        Some("unable to load root certificates: unable to parse bytes as PEM block")
    )]
    #[case::second(
        "-----BEGIN KEY-----\n-----END KEY-----\n-----BEGIN CERTIFICATE-----\nMAIwAA==\n-----END CERTIFICATE-----",
        None
    )]
    fn bundles(#[case] bundle: &str, #[case] expected: Option<&str>) {
        assert_eq!(error(bundle.as_bytes()).as_deref(), expected);
    }
}
