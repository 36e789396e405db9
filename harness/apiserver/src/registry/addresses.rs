//! IP addresses and CIDRs in fields that predate strict validation, and the warnings about their forms. See
//! `staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go`, with the feature `StrictIPCIDRValidation`, which is on
//! in 1.36. PURE.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::str_field;
use crate::status::go_quote;

/// The error of a text that is no IP address.
pub(in crate::registry) const BAD_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Parses an address whose decimal parts may have leading zeros: `ParseIPSloppy` of k8s.io/utils.
pub(in crate::registry) fn sloppy_ip(text: &str) -> Option<IpAddr> {
    let (hex, decimal) = match text.rfind(':') {
        Some(colon) if text.contains('.') => text.split_at(colon + 1),
        Some(_) => return text.parse().ok(),
        None => ("", text),
    };
    let part = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let significant = part.trim_start_matches('0');
        if digits { if significant.is_empty() { Some(0) } else { significant.parse::<u8>().ok() } } else { None }
    };
    let parts: Option<Vec<u8>> = decimal.split('.').map(part).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    let address = Ipv4Addr::from(parts);
    if hex.is_empty() { Some(address.into()) } else { format!("{hex}{address}").parse().ok() }
}

/// A CIDR as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::registry) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// Parses a CIDR; leading zeros are allowed: `ParseCIDRSloppy` of k8s.io/utils.
    pub(in crate::registry) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = sloppy_ip(address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let significant = bits.trim_start_matches('0');
        let bits = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        (digits && bits <= most).then_some(Self { address, bits })
    }

    /// Returns true for a range of IPv6 addresses that are no mapped ones.
    pub(in crate::registry) fn is_ipv6(&self) -> bool {
        self.address.is_ipv6() && !is_mapped(self.address)
    }

    /// Returns the first address of the range.
    fn network(&self) -> IpAddr {
        let kept = |width: u32| width - u32::from(self.bits).min(width);
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(kept(32)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(kept(128)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    /// Returns the range as Go's `IPNet.String` writes it: one of mapped addresses is an IPv4 range.
    fn shown(&self) -> String {
        match self.network() {
            IpAddr::V6(network) if self.bits >= 96 && network.to_ipv4_mapped().is_some() => {
                format!("{}/{}", shown(network.into()), self.bits - 96)
            }
            network => format!("{network}/{}", self.bits),
        }
    }

    /// Returns true if `inner` is a range within this one and smaller.
    pub(in crate::registry) fn strictly_contains(&self, inner: &Self) -> bool {
        let outer = Self { address: inner.network(), bits: self.bits };
        self.address.is_ipv4() == inner.address.is_ipv4() && outer.network() == self.network() && self.bits < inner.bits
    }
}

/// Returns an address as Go's `IP.String` writes it: a mapped one as the IPv4 address.
fn shown(address: IpAddr) -> String {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or_else(|| six.to_string(), |four| four.to_string()),
        IpAddr::V4(four) => four.to_string(),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Validates an address: `IsValidIPForLegacyField`. Returns true if it is valid.
pub(in crate::registry) fn legacy_ip(text: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let why = match (sloppy_ip(text), text.parse::<IpAddr>()) {
        (None, _) => BAD_ADDRESS,
        (Some(_), Err(_)) => "must not have leading 0s",
        (Some(_), Ok(strict)) if is_mapped(strict) => "must not be an IPv4-mapped IPv6 address",
        (Some(_), Ok(_)) => return true,
    };
    errors.invalid(path, text, why);
    false
}

/// Returns the range of a CIDR if it has no leading zeros.
fn strict_cidr(text: &str) -> Option<Cidr> {
    let (address, bits) = text.split_once('/')?;
    let plain = bits == "0" || !bits.starts_with('0');
    Cidr::parse(text).filter(|_| plain && address.parse::<IpAddr>().is_ok())
}

/// Validates a CIDR: `IsValidCIDRForLegacyField`. Returns it if it can be read.
pub(in crate::registry) fn legacy_cidr(text: &str, path: &Path<'_>, errors: &mut ErrorList) -> Option<Cidr> {
    let Some(cidr) = Cidr::parse(text) else {
        errors.invalid(path, text, BAD_CIDR);
        return None;
    };
    match strict_cidr(text) {
        None => errors.invalid(path, text, "must not have leading 0s in IP or prefix length"),
        Some(_) if is_mapped(cidr.address) => {
            errors.invalid(path, text, "must not have an IPv4-mapped IPv6 address");
        }
        Some(_) if cidr.network() != cidr.address => {
            errors.invalid(path, text, "must not have bits set beyond the prefix length");
        }
        Some(_) => {}
    }
    Some(cidr)
}

/// Validates a CIDR in its usual form: `IsValidCIDR`.
pub(in crate::registry) fn canonical_cidr(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    let Some(cidr) = legacy_cidr(text, path, errors).filter(|_| errors.len() == before) else { return };
    let usual = cidr.shown();
    if usual != text {
        errors.invalid(path, text, format!("must be in canonical form ({})", go_quote(&usual)));
    }
}

/// Validates an address with the length of its network's prefix, in its usual form: `IsValidInterfaceAddress`.
pub(in crate::registry) fn interface_address(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(Cidr { address, bits }) = Cidr::parse(text) else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return errors.invalid(path, text, why);
    };
    let bits = i16::from(bits) - if is_mapped(address) && bits > 32 { 96 } else { 0 };
    let usual = format!("{}/{bits}", shown(address));
    if usual != text {
        errors.invalid(path, text, format!("must be in canonical form ({})", go_quote(&usual)));
    }
}

/// Returns the warning about an address in an unusual form: `GetWarningsForIP`.
pub(in crate::registry) fn ip_warning(path: &str, text: &str) -> Option<String> {
    let sloppy = sloppy_ip(text)?;
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => None,
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_none() => {
            let canonical = six.to_string();
            let advice = format!("should be in RFC 5952 canonical format ({})", go_quote(&canonical));
            (canonical != text).then(|| format!("{path}: IPv6 address {} {advice}", go_quote(text)))
        }
        _ => {
            let usual = go_quote(&shown(sloppy));
            Some(format!("{path}: non-standard IP address {} is invalid: use {usual}", go_quote(text)))
        }
    }
}

/// Returns the warnings about the addresses in a list of a status; `suffix` is their field in the paths.
pub(in crate::registry) fn status_warnings(object: &Value, list: &str, suffix: &str) -> Vec<String> {
    let items = list.split('.').fold(&object["status"], |value, field| &value[field]);
    let items = items.as_array().into_iter().flatten().enumerate();
    items.filter_map(|(i, item)| ip_warning(&format!("status.{list}[{i}]{suffix}"), str_field(item, "ip"))).collect()
}

/// Returns the warnings about the addresses of a load balancer, for the status of services and ingresses:
/// `WarningsOnUpdate` of `pkg/registry/{core/service,networking/ingress}/strategy.go`, which name no field.
pub(in crate::registry) fn load_balancer_warnings(object: &Value) -> Vec<String> {
    status_warnings(object, "loadBalancer.ingress", "")
}

/// Returns the warnings about a CIDR in an unusual form: `GetWarningsForCIDR`.
pub(in crate::registry) fn cidr_warnings(path: &str, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse(text) else { return Vec::new() };
    let mut warnings = Vec::new();
    let given = go_quote(text);
    let range = go_quote(&cidr.shown());
    if cidr.network() != cidr.address {
        let width = if cidr.address.is_ipv4() { 32 } else { 128 };
        let single = go_quote(&format!("{}/{width}", shown(cidr.address)));
        warnings
            .push(format!("{path}: CIDR value {given} is ambiguous in this context (should be {range} or {single}?)"));
    }
    if strict_cidr(text).is_none() || is_mapped(cidr.address) {
        warnings.push(format!("{path}: non-standard CIDR value {given} is invalid: use {range}"));
    }
    let canonical = format!("{}/{}", cidr.address, cidr.bits);
    if warnings.is_empty() && cidr.address.is_ipv6() && canonical != text {
        let advice = format!("should be in RFC 5952 canonical format ({})", go_quote(&canonical));
        warnings.push(format!("{path}: IPv6 CIDR value {given} {advice}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `ip_test.go` next to upstream's file.
    #[rstest]
    #[case("1.2.3.4", "", "")]
    #[case("2001:db8::1", "", "")]
    #[case(
        "2001:DB8::1",
        "",
        "p: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
    )]
    #[case(
        "1.2.03.4",
        "must not have leading 0s",
        "p: non-standard IP address \"1.2.03.4\" is invalid: use \"1.2.3.4\""
    )]
    #[case(
        "::ffff:1.2.3.4",
        "must not be an IPv4-mapped IPv6 address",
        "p: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""
    )]
    #[case(
        "::ffff:01.2.3.4",
        "must not have leading 0s",
        "p: non-standard IP address \"::ffff:01.2.3.4\" is invalid: use \"1.2.3.4\""
    )]
    #[case("1.2.3", BAD_ADDRESS, "")]
    #[case("1.2.3.256", BAD_ADDRESS, "")]
    #[case("fe80::1%eth0", BAD_ADDRESS, "")]
    #[case("", BAD_ADDRESS, "")]
    fn legacy_addresses(#[case] text: &str, #[case] error: &str, #[case] warning: &str) {
        let mut errors = ErrorList::new();
        assert_eq!(legacy_ip(text, &Path::new("p"), &mut errors), error.is_empty());
        let found: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
        assert_eq!(found.concat(), error);
        assert_eq!(ip_warning("p", text).unwrap_or_default(), warning);
    }

    #[rstest]
    #[case("10.0.0.0/8", "", &[])]
    #[case("0.0.0.0/0", "", &[])]
    #[case("::/0", "", &[])]
    #[case("fd00::/008", "must not have leading 0s in IP or prefix length",
        &["p: non-standard CIDR value \"fd00::/008\" is invalid: use \"fd00::/8\""])]
    #[case("FD00::/8", "", &["p: IPv6 CIDR value \"FD00::/8\" should be in RFC 5952 canonical format (\"fd00::/8\")"])]
    #[case("10.1.2.3/24", "must not have bits set beyond the prefix length",
        &["p: CIDR value \"10.1.2.3/24\" is ambiguous in this context (should be \"10.1.2.0/24\" or \"10.1.2.3/32\"?)"])]
    #[case("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address",
        &["p: non-standard CIDR value \"::ffff:1.2.3.0/120\" is invalid: use \"1.2.3.0/24\""])]
    #[case("10.0.0.0/33", BAD_CIDR, &[])]
    #[case("10.0.0.0", BAD_CIDR, &[])]
    #[case("10.0.0.0/+8", BAD_CIDR, &[])]
    fn legacy_ranges(#[case] text: &str, #[case] error: &str, #[case] warnings: &[&str]) {
        let mut errors = ErrorList::new();
        let cidr = legacy_cidr(text, &Path::new("p"), &mut errors);
        assert_eq!(cidr.is_none(), error == BAD_CIDR);
        let found: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
        assert_eq!(found.concat(), error);
        assert_eq!(cidr_warnings("p", text), warnings);
    }

    #[rstest]
    #[case("10.0.0.0/8", "10.1.0.0/16", true)]
    #[case("10.0.0.0/8", "10.0.0.0/8", false)]
    #[case("10.0.0.0/8", "11.0.0.0/16", false)]
    #[case("0.0.0.0/0", "fd00::/8", false)]
    fn ranges_contain_ranges(#[case] outer: &str, #[case] inner: &str, #[case] expected: bool) {
        let [outer, inner] = [outer, inner].map(|text| Cidr::parse(text).unwrap());
        assert_eq!(outer.strictly_contains(&inner), expected);
    }
}
