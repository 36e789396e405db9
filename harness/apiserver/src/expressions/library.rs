//! Kubernetes' CEL libraries: lists, regular expressions, sets, URLs, quantities, IP addresses and CIDRs.
//!
//! Follows `staging/src/k8s.io/apiserver/pkg/cel/library` of Kubernetes 1.36, including its messages.

use std::any::Any;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use cel::common::functions::Function;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

use crate::quantity::Quantity;

type CelResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// A value of a type that these libraries add.
#[derive(Debug, Clone, PartialEq)]
enum LibraryValue {
    Quantity(Quantity),
    Url(Url),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
}

#[derive(Debug, Clone, PartialEq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
}

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");
static URL: Type = Type::new_unspecified_type("kubernetes.URL");
static IP: Type = Type::new_unspecified_type("net.IP");
static CIDR: Type = Type::new_unspecified_type("net.CIDR");

impl Val for LibraryValue {
    fn get_type(&self) -> &Type {
        match self {
            Self::Quantity(_) => &QUANTITY,
            Self::Url(_) => &URL,
            Self::Ip(_) => &IP,
            Self::Cidr(..) => &CIDR,
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
        env.add_extension(cel::extensions::math)?;
        env.add_extension(cel::extensions::lists)?;
        env.add_extension(cel::extensions::encoders)?;
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

fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    for own in [&QUANTITY, &URL, &IP, &CIDR] {
        env.add_type(own.to_owned())?;
    }
    let tables = [globals(), lists_and_texts(), addresses(), quantities()];
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
        ("isURL", None, vec![&TEXT], |args| bool_value(url(string_argument(&args, 0)).is_some())),
        ("url", None, vec![&TEXT], |args| library_value(parse_url(string_argument(&args, 0))?)),
        ("isQuantity", None, vec![&TEXT], |args| bool_value(Quantity::parse(string_argument(&args, 0)).is_some())),
        ("quantity", None, vec![&TEXT], |args| {
            library_value(LibraryValue::Quantity(parse_quantity(string_argument(&args, 0))?))
        }),
        ("isIP", None, vec![&TEXT], |args| bool_value(string_argument(&args, 0).parse::<IpAddr>().is_ok())),
        ("ip", None, vec![&TEXT], |args| library_value(LibraryValue::Ip(parse_ip(string_argument(&args, 0))?))),
        ("isCIDR", None, vec![&TEXT], |args| bool_value(cidr(string_argument(&args, 0)).is_some())),
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

fn lists_and_texts() -> Vec<FunctionEntry> {
    vec![
        ("find", Some(&TEXT), vec![&TEXT], find),
        ("findAll", Some(&TEXT), vec![&TEXT], find_all),
        ("findAll", Some(&TEXT), vec![&TEXT, &INT], find_all),
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
        ("getHostname", Some(&URL), vec![], |args| part(&args, |url| split_host(&url.host).0)),
        ("getPort", Some(&URL), vec![], |args| part(&args, |url| split_host(&url.host).1)),
        ("getEscapedPath", Some(&URL), vec![], |args| part(&args, |url| url.path.clone())),
        ("family", Some(&IP), vec![], |args| match args[0].downcast_ref::<LibraryValue>() {
            Some(LibraryValue::Ip(ip)) => int_of(if ip.is_ipv4() { 4 } else { 6 }),
            _ => Err(mismatch("family")),
        }),
        ("containsIP", Some(&CIDR), vec![&ANY], contains_ip),
    ]
}

fn quantities() -> Vec<FunctionEntry> {
    vec![
        ("sign", Some(&QUANTITY), vec![], |args| int_of(i64::try_from(quantity(&args, 0)?.sign()).unwrap_or(0))),
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
    i64::try_from(quantity.ceil()).ok().filter(|_| quantity.is_whole())
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

fn compiled(function: &str, pattern: &str) -> Result<Regex, ExecutionError> {
    Regex::new(pattern).map_err(|error| function_error(function, format!("Illegal regex: {error}")))
}

fn find<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let found = compiled("find", string_argument(&args, 1))?
        .find(string_argument(&args, 0))
        .map_or("", |found| found.as_str())
        .to_owned();
    text(found)
}

fn find_all<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let most = args.get(2).map_or(usize::MAX, |_| usize::try_from(int_argument(&args, 2)).unwrap_or(usize::MAX));
    let pattern = compiled("findAll", string_argument(&args, 1))?;
    let found = pattern.find_iter(string_argument(&args, 0)).take(most);
    let found: Vec<Box<dyn Val + 'v>> =
        found.map(|found| Box::new(CelString::from(found.as_str().to_owned())) as Box<dyn Val + 'v>).collect();
    Ok(CowVal::owned(CelList::from(found)))
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

fn parse_ip(given: &str) -> Result<IpAddr, ExecutionError> {
    given.parse().map_err(|_| {
        let why = format!("ParseAddr({given:?}): unable to parse IP");
        function_error("ip", format!("IP Address {given:?} parse error during conversion from string: {why}"))
    })
}

fn cidr(given: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = given.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    bits.parse().ok().filter(|bits| *bits <= most).map(|bits| (address, bits))
}

fn parse_cidr(given: &str) -> Result<LibraryValue, ExecutionError> {
    cidr(given).map(|(address, bits)| LibraryValue::Cidr(address, bits)).ok_or_else(|| {
        let why = format!("netip.ParsePrefix({given:?}): no '/'");
        function_error("cidr", format!("network address parse error during conversion from string: {why}"))
    })
}

fn contains_ip<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let ip = match args.get(1).and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Ip(ip)) => *ip,
        _ => string_argument(&args, 1).parse().map_err(|_| mismatch("containsIP"))?,
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

fn url(given: &str) -> Option<Url> {
    if given.is_empty() || given.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return None;
    }
    let path_of = |rest: &str| rest.split('?').next().unwrap_or_default().to_owned();
    if given.starts_with('/') {
        return Some(Url { scheme: String::new(), host: String::new(), path: path_of(given) });
    }
    let (scheme, rest) = given.split_once(':')?;
    let begins = scheme.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !begins || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) || !rest.starts_with('/') {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let Some(after) = rest.strip_prefix("//") else {
        return Some(Url { scheme, host: String::new(), path: path_of(rest) });
    };
    let end = after.find(['/', '?']).unwrap_or(after.len());
    let host = after[..end].rsplit('@').next().unwrap_or_default().to_owned();
    Some(Url { scheme, host, path: path_of(&after[end..]) })
}

fn parse_url(given: &str) -> Result<LibraryValue, ExecutionError> {
    url(given).map(LibraryValue::Url).ok_or_else(|| {
        let why = format!("parse {given:?}: invalid URI for request");
        function_error("url", format!("URL parse error during conversion from string: {why}"))
    })
}

/// Splits a host into name and port.
fn split_host(host: &str) -> (String, String) {
    let bare = |name: &str| name.trim_start_matches('[').trim_end_matches(']').to_owned();
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => {
            (bare(name), port.to_owned())
        }
        _ => (bare(host), String::new()),
    }
}

fn part<'b, 'v>(args: &[CowVal<'b, 'v>], of: fn(&Url) -> String) -> CelResult<'b, 'v> {
    match args.first().and_then(|value| value.downcast_ref::<LibraryValue>()) {
        Some(LibraryValue::Url(url)) => text(of(url)),
        _ => Err(mismatch("url")),
    }
}
