//! Kubernetes' CEL libraries: lists, sets, URLs, quantities, IP addresses, CIDRs,
//! versions and formats.
//!
//! Follows `staging/src/k8s.io/apiserver/pkg/cel/library` of Kubernetes 1.36, including its messages.

use std::any::Any;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use cel::common::functions::Function;
use cel::common::types::{
    BOOL_TYPE, CelBool, CelDouble, CelDuration, CelInt, CelList, CelMapKey, CelOptional, CelString, DURATION_TYPE,
    DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::formats::{FORMATS, NamedFormat};
use super::macros;
use super::semver::{Version, VersionError};
use super::shared::SharedValue;
use crate::field_errors::go_quote;
use crate::go_netip;
use crate::go_url::Url;
use crate::quantity::Quantity;

type CelResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// A value of a type that these libraries add.
#[derive(Debug, Clone, PartialEq)]
enum LibraryValue {
    Quantity(Quantity),
    Url(Url),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Version(Version),
    Format(&'static NamedFormat),
}

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");
static URL: Type = Type::new_unspecified_type("kubernetes.URL");
static IP: Type = Type::new_unspecified_type("net.IP");
static CIDR: Type = Type::new_unspecified_type("net.CIDR");
static SEMVER: Type = Type::new_unspecified_type("kubernetes.Semver");
static FORMAT: Type = Type::new_unspecified_type("kubernetes.NamedFormat");

impl Val for LibraryValue {
    fn get_type(&self) -> &Type {
        match self {
            Self::Quantity(_) => &QUANTITY,
            Self::Url(_) => &URL,
            Self::Ip(_) => &IP,
            Self::Cidr(..) => &CIDR,
            Self::Version(_) => &SEMVER,
            Self::Format(_) => &FORMAT,
        }
    }

    fn cel_type() -> &'static Type {
        &QUANTITY
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other == self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for LibraryValue {}

/// The environment in which all rules are compiled.
pub(crate) static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let added = (|| {
        env.add_extension(cel::extensions::strings)?;
        env.add_extension(cel::extensions::lists)?;
        macros::declare(&mut env)?;
        declare(&mut env)
    })();
    if let Err(error) = added {
        tracing::error!(%error, "some functions of rules are missing");
    }
    Arc::new(env)
});

/// A function: its name, its receiver's type, its arguments' types and its implementation.
type FunctionEntry = (&'static str, Option<&'static Type>, Vec<&'static Type>, Function);

static TEXT: Type = STRING_TYPE;
static LIST: Type = LIST_TYPE;
static INT: Type = INT_TYPE;
static ANY: Type = DYN_TYPE;
static FLAG: Type = BOOL_TYPE;
static DURATION: Type = DURATION_TYPE;

fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    for own in [&QUANTITY, &URL, &IP, &CIDR, &SEMVER, &FORMAT] {
        env.add_type(own.to_owned())?;
    }
    let addresses = [addresses(), properties_of_addresses()].concat();
    let tables = [globals(), conversions(), lists_and_texts(), addresses, quantities(), versions(), formats()];
    for (index, (name, receiver, arguments, function)) in tables.into_iter().flatten().enumerate() {
        let id = format!("kubernetes_{index}_{name}");
        let arguments = arguments.into_iter().map(Type::to_owned).collect();
        match receiver {
            None => env.add_overload(name, &id, arguments, function)?,
            Some(receiver) => env.add_member_overload(name, &id, receiver.to_owned(), arguments, function)?,
        }
    }
    Ok(())
}

fn globals() -> Vec<FunctionEntry> {
    vec![
        ("jsonpatch.escapeKey", None, vec![&TEXT], |args| {
            text(string_argument(&args, 0).replace('~', "~0").replace('/', "~1"))
        }),
        ("isURL", None, vec![&TEXT], |args| bool_value(Url::parse_request_uri(string_argument(&args, 0)).is_ok())),
        ("url", None, vec![&TEXT], |args| library_value(parse_url(string_argument(&args, 0))?)),
        ("isQuantity", None, vec![&TEXT], |args| bool_value(Quantity::parse(string_argument(&args, 0)).is_some())),
        ("quantity", None, vec![&TEXT], |args| {
            library_value(LibraryValue::Quantity(parse_quantity(string_argument(&args, 0))?))
        }),
        ("isIP", None, vec![&TEXT], |args| bool_value(parse_ip(string_argument(&args, 0)).is_ok())),
        ("ip", None, vec![&TEXT], |args| library_value(LibraryValue::Ip(parse_ip(string_argument(&args, 0))?))),
        ("isCIDR", None, vec![&TEXT], |args| bool_value(parse_cidr(string_argument(&args, 0)).is_ok())),
        ("cidr", None, vec![&TEXT], |args| library_value(parse_cidr(string_argument(&args, 0))?)),
        ("sets.contains", None, vec![&LIST, &LIST], |args| bool_value(is_subset(&args, 1, 0))),
        ("sets.intersects", None, vec![&LIST, &LIST], |args| {
            bool_value(items(&args, 1).iter().any(|item| has(&args, 0, &**item)))
        }),
        ("sets.equivalent", None, vec![&LIST, &LIST], |args| {
            bool_value(is_subset(&args, 0, 1) && is_subset(&args, 1, 0))
        }),
    ]
}

/// Conversions that the crate does not have.
fn conversions() -> Vec<FunctionEntry> {
    vec![
        ("string", None, vec![&IP], |args| text(ip(&args, "string")?.to_string())),
        ("string", None, vec![&CIDR], |args| {
            let (address, bits) = prefix(&args, 0, "string")?;
            text(format!("{address}/{bits}"))
        }),
        ("int", None, vec![&DURATION], |args| {
            let length = args.first().and_then(|value| value.downcast_ref::<CelDuration>());
            let nanoseconds = length.and_then(|length| length.inner().num_nanoseconds());
            int_of(nanoseconds.ok_or_else(|| mismatch("int"))?)
        }),
        ("optional.unwrap", None, vec![&LIST], |args| unwrap_optionals(&args)),
        ("unwrapOpt", Some(&LIST), vec![], |args| unwrap_optionals(&args)),
        ("first", Some(&LIST), vec![], |args| optional_of(items(&args, 0).into_iter().next())),
        ("last", Some(&LIST), vec![], |args| optional_of(items(&args, 0).into_iter().next_back())),
    ]
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn optional_of<'b, 'v>(value: Option<Box<dyn Val + 'v>>) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(value.map_or_else(CelOptional::none, CelOptional::of)))
}

/// Returns the contents of a list of optional values, without those that have none.
#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn unwrap_optionals<'b, 'v>(args: &[CowVal<'b, 'v>]) -> CelResult<'b, 'v> {
    let contents = items(args, 0).into_iter().filter_map(|item| {
        item.downcast_ref::<CelOptional>().and_then(|optional| Some(optional.option()?.clone_as_boxed()))
    });
    Ok(CowVal::owned(CelList::from(contents.collect::<Vec<_>>())))
}

fn lists_and_texts() -> Vec<FunctionEntry> {
    vec![
        ("isSorted", Some(&LIST), vec![], is_sorted),
        ("sum", Some(&LIST), vec![], sum),
        ("min", Some(&LIST), vec![], |args| min_or_max(&args, Ordering::Less, "min")),
        ("max", Some(&LIST), vec![], |args| min_or_max(&args, Ordering::Greater, "max")),
        ("indexOf", Some(&LIST), vec![&ANY], |args| {
            index_value(items(&args, 0).iter().position(|item| item.equals(args[1].as_ref())))
        }),
        ("lastIndexOf", Some(&LIST), vec![&ANY], |args| {
            index_value(items(&args, 0).iter().rposition(|item| item.equals(args[1].as_ref())))
        }),
    ]
}

fn addresses() -> Vec<FunctionEntry> {
    vec![
        ("getScheme", Some(&URL), vec![], |args| part(&args, |url| url.scheme.clone())),
        ("getHost", Some(&URL), vec![], |args| part(&args, |url| url.host.clone())),
        ("getHostname", Some(&URL), vec![], |args| part(&args, |url| url.hostname().to_owned())),
        ("getPort", Some(&URL), vec![], |args| part(&args, |url| url.port().to_owned())),
        ("getEscapedPath", Some(&URL), vec![], |args| part(&args, Url::escaped_path)),
        ("getQuery", Some(&URL), vec![], |args| match args[0].downcast_ref::<LibraryValue>() {
            Some(LibraryValue::Url(url)) => Ok(CowVal::owned(query_map(url))),
            _ => Err(mismatch("getQuery")),
        }),
        ("family", Some(&IP), vec![], |args| match args[0].downcast_ref::<LibraryValue>() {
            Some(LibraryValue::Ip(ip)) => int_of(if ip.is_ipv4() { 4 } else { 6 }),
            _ => Err(mismatch("family")),
        }),
        ("containsIP", Some(&CIDR), vec![&ANY], contains_ip),
    ]
}

/// Returns the address of the receiver.
fn ip(args: &[CowVal<'_, '_>], function: &str) -> Result<IpAddr, ExecutionError> {
    match args.first().and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Ip(ip)) => Ok(*ip),
        _ => Err(mismatch(function)),
    }
}

/// Returns address and length of a prefix, which may be given as a text.
fn prefix(args: &[CowVal<'_, '_>], index: usize, function: &str) -> Result<(IpAddr, u8), ExecutionError> {
    match args.get(index).and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Cidr(address, bits)) => Ok((*address, *bits)),
        Some(_) => Err(mismatch(function)),
        None => match parse_cidr(string_argument(args, index))? {
            LibraryValue::Cidr(address, bits) => Ok((address, bits)),
            _ => Err(mismatch(function)),
        },
    }
}

/// Returns the address with all bits after the first `bits` cleared.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::from((u32::from(ip) & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::from((u128::from(ip) & mask).to_be_bytes())
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.is_multicast() && ip.segments()[0] & 0xf == 2,
    }
}

/// Returns true for addresses that are not special, as Go's `IsGlobalUnicast`.
fn is_global_unicast(ip: IpAddr) -> bool {
    let special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
    !special && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

fn properties_of_addresses() -> Vec<FunctionEntry> {
    vec![
        ("ip.isCanonical", None, vec![&TEXT], |args| {
            let text = string_argument(&args, 0);
            bool_value(parse_ip(text)?.to_string() == text)
        }),
        ("isUnspecified", Some(&IP), vec![], |args| bool_value(ip(&args, "isUnspecified")?.is_unspecified())),
        ("isLoopback", Some(&IP), vec![], |args| bool_value(ip(&args, "isLoopback")?.is_loopback())),
        ("isLinkLocalUnicast", Some(&IP), vec![], |args| bool_value(is_link_local(ip(&args, "isLinkLocalUnicast")?))),
        ("isLinkLocalMulticast", Some(&IP), vec![], |args| {
            bool_value(is_link_local_multicast(ip(&args, "isLinkLocalMulticast")?))
        }),
        ("isGlobalUnicast", Some(&IP), vec![], |args| bool_value(is_global_unicast(ip(&args, "isGlobalUnicast")?))),
        ("ip", Some(&CIDR), vec![], |args| library_value(LibraryValue::Ip(prefix(&args, 0, "ip")?.0))),
        ("prefixLength", Some(&CIDR), vec![], |args| int_of(prefix(&args, 0, "prefixLength")?.1.into())),
        ("masked", Some(&CIDR), vec![], |args| {
            let (address, bits) = prefix(&args, 0, "masked")?;
            library_value(LibraryValue::Cidr(masked(address, bits), bits))
        }),
        ("containsCIDR", Some(&CIDR), vec![&ANY], |args| {
            let outer = prefix(&args, 0, "containsCIDR")?;
            let inner = prefix(&args, 1, "containsCIDR")?;
            let same = outer.0.is_ipv4() == inner.0.is_ipv4();
            bool_value(same && outer.1 <= inner.1 && masked(inner.0, outer.1) == masked(outer.0, outer.1))
        }),
    ]
}

fn version(args: &[CowVal<'_, '_>], index: usize) -> Result<Version, ExecutionError> {
    match args.get(index).and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Version(version)) => Ok(version.clone()),
        _ => Err(mismatch("semver")),
    }
}

fn compare_versions(args: &[CowVal<'_, '_>]) -> Result<Ordering, ExecutionError> {
    Ok(version(args, 0)?.compare(&version(args, 1)?))
}

/// Returns the version in the first argument; the second one says that it is normalized.
fn parse_version(args: &[CowVal<'_, '_>]) -> Result<Version, VersionError> {
    let normalize = args.get(1).and_then(|value| value.downcast_ref::<CelBool>()).is_some_and(|flag| *flag.inner());
    Version::parse(string_argument(args, 0), normalize)
}

fn number_of_version<'b, 'v>(args: &[CowVal<'_, '_>], index: usize) -> CelResult<'b, 'v> {
    int_of(i64::try_from(version(args, 0)?.numbers[index]).unwrap_or(i64::MAX))
}

fn versions() -> Vec<FunctionEntry> {
    let parse: Function = |args| match parse_version(&args) {
        Ok(version) => library_value(LibraryValue::Version(version)),
        Err(error) => Err(function_error("semver", error)),
    };
    let is_valid: Function = |args| bool_value(parse_version(&args).is_ok());
    vec![
        ("semver", None, vec![&TEXT], parse),
        ("semver", None, vec![&TEXT, &FLAG], parse),
        ("isSemver", None, vec![&TEXT], is_valid),
        ("isSemver", None, vec![&TEXT, &FLAG], is_valid),
        ("major", Some(&SEMVER), vec![], |args| number_of_version(&args, 0)),
        ("minor", Some(&SEMVER), vec![], |args| number_of_version(&args, 1)),
        ("patch", Some(&SEMVER), vec![], |args| number_of_version(&args, 2)),
        ("isGreaterThan", Some(&SEMVER), vec![&SEMVER], |args| bool_value(compare_versions(&args)?.is_gt())),
        ("isLessThan", Some(&SEMVER), vec![&SEMVER], |args| bool_value(compare_versions(&args)?.is_lt())),
        ("compareTo", Some(&SEMVER), vec![&SEMVER], |args| int_of(compare_versions(&args)? as i64)),
    ]
}

/// Returns the query of a URL as a map of lists.
fn query_map(url: &Url) -> SharedValue {
    let list = |values: Vec<String>| SharedValue::list(values.into_iter().map(SharedValue::text).collect());
    SharedValue::map(url.query().into_iter().map(|(key, values)| (CelMapKey::from(key), list(values))).collect())
}

fn formats() -> Vec<FunctionEntry> {
    vec![
        ("format.named", None, vec![&TEXT], |args| {
            let found = FORMATS.iter().find(|format| format.name == string_argument(&args, 0));
            Ok(CowVal::owned(SharedValue::optional(found.map(format_value))))
        }),
        ("validate", Some(&FORMAT), vec![&TEXT], |args| match args[0].downcast_ref::<LibraryValue>() {
            Some(LibraryValue::Format(format)) => {
                let errors: Vec<_> =
                    (format.errors)(string_argument(&args, 1)).into_iter().map(SharedValue::text).collect();
                let errors = Some(errors).filter(|errors| !errors.is_empty());
                Ok(CowVal::owned(SharedValue::optional(errors.map(SharedValue::list))))
            }
            _ => Err(mismatch("validate")),
        }),
    ]
}

fn format_value(format: &'static NamedFormat) -> SharedValue {
    SharedValue::new(LibraryValue::Format(format))
}

/// Returns the format that a function without arguments such as `format.uuid` returns.
pub(super) fn constant_format(function: &str) -> Option<SharedValue> {
    let name = function.strip_prefix("format.")?;
    FORMATS.iter().find(|format| format.name == name).map(format_value)
}

/// Returns the length of the regular expression of a format, if the value is one.
pub(super) fn pattern_length(value: &SharedValue) -> Option<u64> {
    match value.downcast::<LibraryValue>()? {
        LibraryValue::Format(format) => Some(format.pattern),
        _ => None,
    }
}

fn quantities() -> Vec<FunctionEntry> {
    vec![
        ("sign", None, vec![&QUANTITY], |args| int_of(i64::try_from(quantity(&args, 0)?.sign()).unwrap_or(0))),
        ("isInteger", Some(&QUANTITY), vec![], |args| bool_value(as_integer(quantity(&args, 0)?).is_some())),
        ("asInteger", Some(&QUANTITY), vec![], |args| match as_integer(quantity(&args, 0)?) {
            Some(number) => int_of(number),
            None => Err(function_error("asInteger", "cannot convert value to integer")),
        }),
        ("asApproximateFloat", Some(&QUANTITY), vec![], |args| {
            Ok(CowVal::owned(CelDouble::from(quantity(&args, 0)?.to_f64())))
        }),
        ("isGreaterThan", Some(&QUANTITY), vec![&QUANTITY], |args| {
            bool_value(quantity(&args, 0)? > quantity(&args, 1)?)
        }),
        ("isLessThan", Some(&QUANTITY), vec![&QUANTITY], |args| bool_value(quantity(&args, 0)? < quantity(&args, 1)?)),
        ("compareTo", Some(&QUANTITY), vec![&QUANTITY], |args| {
            let order = quantity(&args, 0)?.partial_cmp(&quantity(&args, 1)?);
            int_of(order.map_or(0, |order| order as i64))
        }),
        ("add", Some(&QUANTITY), vec![&QUANTITY], |args| {
            library_value(LibraryValue::Quantity(quantity(&args, 0)?.plus(quantity(&args, 1)?)))
        }),
        ("sub", Some(&QUANTITY), vec![&QUANTITY], |args| {
            library_value(LibraryValue::Quantity(quantity(&args, 0)?.minus(quantity(&args, 1)?)))
        }),
        ("add", Some(&QUANTITY), vec![&INT], |args| {
            library_value(LibraryValue::Quantity(quantity(&args, 0)?.plus(int_argument(&args, 1).into())))
        }),
        ("sub", Some(&QUANTITY), vec![&INT], |args| {
            library_value(LibraryValue::Quantity(quantity(&args, 0)?.minus(int_argument(&args, 1).into())))
        }),
    ]
}

fn as_integer(quantity: Quantity) -> Option<i64> {
    quantity.as_int64()
}

/// Returns true if every item of the list `a` is in the list `b`.
fn is_subset(args: &[CowVal<'_, '_>], a: usize, b: usize) -> bool {
    items(args, a).iter().all(|item| has(args, b, &**item))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn bool_value<'b, 'v>(value: bool) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn int_of<'b, 'v>(value: i64) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

/// Returns an index as a CEL value; -1 for `None`.
fn index_value<'b, 'v>(index: Option<usize>) -> CelResult<'b, 'v> {
    int_of(index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn text<'b, 'v>(value: String) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all functions")]
fn library_value<'b, 'v>(value: LibraryValue) -> CelResult<'b, 'v> {
    Ok(CowVal::owned(value))
}

fn function_error(function: &str, message: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, message.to_string())
}

fn mismatch(function: &str) -> ExecutionError {
    ExecutionError::no_such_overload(function, Vec::new())
}

/// Returns an argument's text; the overload guarantees that it is a string.
fn string_argument<'a>(args: &'a [CowVal<'_, '_>], index: usize) -> &'a str {
    args.get(index).and_then(|value| value.downcast_ref::<CelString>()).map_or("", |text| text.inner())
}

fn int_argument(args: &[CowVal<'_, '_>], index: usize) -> i64 {
    args.get(index).and_then(|value| value.downcast_ref::<CelInt>()).map_or(0, |number| *number.inner())
}

/// Returns copies of the items of a list.
fn items<'v>(args: &[CowVal<'_, 'v>], index: usize) -> Vec<Box<dyn Val + 'v>> {
    let mut all = Vec::new();
    if let Some(list) = args.get(index).and_then(|value| value.as_iterable()) {
        let mut items = list.iter();
        while let Some(item) = items.next() {
            all.push(item.clone_as_boxed());
        }
    }
    all
}

fn has(args: &[CowVal<'_, '_>], index: usize, wanted: &dyn Val) -> bool {
    items(args, index).iter().any(|item| item.equals(wanted))
}

fn compare(a: &dyn Val, b: &dyn Val, function: &str) -> Result<Ordering, ExecutionError> {
    a.as_comparer().ok_or_else(|| mismatch(function))?.compare(b)
}

fn is_sorted<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let items = items(&args, 0);
    for pair in items.windows(2) {
        if compare(&*pair[0], &*pair[1], "isSorted")? == Ordering::Greater {
            return bool_value(false);
        }
    }
    bool_value(true)
}

fn sum<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let mut items = items(&args, 0).into_iter();
    let Some(first) = items.next() else { return int_of(0) };
    let mut total = CowVal::Owned(first);
    for item in items {
        let sum = total.as_adder().ok_or_else(|| mismatch("sum"))?.add(&*item)?.into_owned();
        total = CowVal::Owned(sum);
    }
    Ok(total)
}

fn min_or_max<'b, 'v>(args: &[CowVal<'b, 'v>], wanted: Ordering, function: &str) -> CelResult<'b, 'v> {
    let mut items = items(args, 0).into_iter();
    let Some(mut best) = items.next() else {
        return Err(function_error(function, format!("{function} called on empty list")));
    };
    for item in items {
        if compare(&*item, &*best, function)? == wanted {
            best = item;
        }
    }
    Ok(CowVal::Owned(best))
}

fn quantity(args: &[CowVal<'_, '_>], index: usize) -> Result<Quantity, ExecutionError> {
    match args.get(index).and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Quantity(quantity)) => Ok(*quantity),
        _ => Err(mismatch("quantity")),
    }
}

fn parse_quantity(given: &str) -> Result<Quantity, ExecutionError> {
    const WHY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    Quantity::parse(given).ok_or_else(|| function_error("quantity", WHY))
}

/// Parses an address: `parseIPAddr` of `staging/src/k8s.io/apiserver/pkg/cel/library/ip.go`.
fn parse_ip(given: &str) -> Result<IpAddr, ExecutionError> {
    let quoted = go_quote(given);
    match go_netip::parse_address(given) {
        Err(error) => {
            let why = format!("IP Address {quoted} parse error during conversion from string: {error}");
            Err(function_error("ip", why))
        }
        Ok((_, zone)) if !zone.is_empty() => {
            Err(function_error("ip", format!("IP address {quoted} with zone value is not allowed")))
        }
        Ok((ip, _)) if is_mapped(ip) => Err(function_error("ip", mapped(given))),
        Ok((ip, _)) => Ok(ip),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn mapped(given: &str) -> String {
    format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(given))
}

/// Parses a prefix: `parseCIDR` of `cidr.go` there.
fn parse_cidr(given: &str) -> Result<LibraryValue, ExecutionError> {
    match go_netip::parse_prefix(given) {
        Err(error) => {
            let why = format!("network address parse error during conversion from string: {error}");
            Err(function_error("cidr", why))
        }
        Ok((ip, _)) if is_mapped(ip) => Err(function_error("cidr", mapped(given))),
        Ok((ip, bits)) => Ok(LibraryValue::Cidr(ip, bits)),
    }
}

fn contains_ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let ip = match args.get(1).and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Ip(ip)) => *ip,
        _ => parse_ip(string_argument(&args, 1)).map_err(|_| mismatch("containsIP"))?,
    };
    let Some(LibraryValue::Cidr(network, bits)) = args[0].downcast_ref::<LibraryValue>() else {
        return Err(mismatch("containsIP"));
    };
    let widened = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let same = network.is_ipv4() == ip.is_ipv4();
    let differing = (widened(*network) ^ widened(ip)).leading_zeros();
    bool_value(same && differing >= u32::from(*bits))
}

/// Reads a URL. Upstream parses it twice, because `ParseRequestURI` takes a fragment for a part of the path.
fn parse_url(given: &str) -> Result<LibraryValue, ExecutionError> {
    let parsed = Url::parse_request_uri(given).and_then(|_| Url::parse(given));
    parsed
        .map(LibraryValue::Url)
        .map_err(|error| function_error("url", format!("URL parse error during conversion from string: {error}")))
}

fn part<'b, 'v>(args: &[CowVal<'b, 'v>], of: fn(&Url) -> String) -> CelResult<'b, 'v> {
    match args.first().and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Url(url)) => text(of(url)),
        _ => Err(mismatch("url")),
    }
}
