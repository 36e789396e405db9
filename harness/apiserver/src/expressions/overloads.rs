//! The functions that expressions may call, and their types. PURE.
//!
//! Follows the libraries that `staging/src/k8s.io/apiserver/pkg/cel/environment/base.go` of Kubernetes 1.36 loads.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::CelType;

/// The supported functions: `name receiver arguments result`, with `-` for no receiver or no arguments, and `T` for the
/// type of the receiver's elements or content; `same` is the type of the receiver.
const FUNCTIONS: &str = "
size - string int|size - bytes int|size - list int|size - map int|size string - int|size bytes - int|size list - int
size map - int
string - string string|string - bool string|string - bytes string|string - double string|string - duration string
string - int string|string - timestamp string|string - uint string|string - net.IP string|string - net.CIDR string
int - int int|int - double int|int - duration int|int - string int|int - timestamp int|int - uint int|uint - uint uint
uint - double uint|uint - int uint|uint - string uint
double - double double|double - int double|double - string double|double - uint double|bool - bool bool
bool - string bool|bytes - bytes bytes|bytes - string bytes|dyn - dyn dyn|type - dyn type
duration - string duration|duration - duration duration|timestamp - string timestamp|timestamp - timestamp timestamp
timestamp - int timestamp
startsWith string string bool|endsWith string string bool|contains string string bool|matches string string bool
matches - string,string bool
charAt string int string|indexOf string string int|indexOf string string,int int|lastIndexOf string string int
lastIndexOf string string,int int
lowerAscii string - string|upperAscii string - string|trim string - string
replace string string,string string|replace string string,string,int string|split string string list(string)
split string string,int list(string)
substring string int string|substring string int,int string|join list(string) - string|join list(string) string string
format string list string|strings.quote - string string
find string string string|findAll string string list(string)|findAll string string,int list(string)
isSorted list - bool|sum list - T|min list - T|max list - T|indexOf list T int|lastIndexOf list T int
slice list int,int same|flatten list(list) - T|flatten list int list|distinct list - same|reverse list - same
sort list - same|first list - optional|last list - optional|lists.range - int list(int)
sets.contains - list,list bool|sets.intersects - list,list bool|sets.equivalent - list,list bool
getFullYear timestamp - int|getMonth timestamp - int|getDate timestamp - int|getDayOfMonth timestamp - int
getDayOfWeek timestamp - int|getDayOfYear timestamp - int
getHours timestamp - int|getMinutes timestamp - int|getSeconds timestamp - int|getMilliseconds timestamp - int
getFullYear timestamp string int|getMonth timestamp string int|getDate timestamp string int
getHours timestamp string int|getMinutes timestamp string int
getSeconds timestamp string int|getMilliseconds timestamp string int|getDayOfMonth timestamp string int
getDayOfWeek timestamp string int|getDayOfYear timestamp string int
getHours duration - int|getMinutes duration - int|getSeconds duration - int|getMilliseconds duration - int
hasValue optional - bool|value optional - T|orValue optional T T|or optional optional same
optional.unwrap - list(optional) list|unwrapOpt list(optional) - list|optional.of - dyn dyn|optional.none - - dyn
optional.ofNonZeroValue - dyn dyn
url - string kubernetes.URL|isURL - string bool|getScheme kubernetes.URL - string|getHost kubernetes.URL - string
getHostname kubernetes.URL - string
getPort kubernetes.URL - string|getEscapedPath kubernetes.URL - string
quantity - string kubernetes.Quantity|isQuantity - string bool|sign - kubernetes.Quantity int
isInteger kubernetes.Quantity - bool
asInteger kubernetes.Quantity - int|asApproximateFloat kubernetes.Quantity - double
isGreaterThan kubernetes.Quantity kubernetes.Quantity bool
isLessThan kubernetes.Quantity kubernetes.Quantity bool|compareTo kubernetes.Quantity kubernetes.Quantity int
add kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity|add kubernetes.Quantity int kubernetes.Quantity
sub kubernetes.Quantity kubernetes.Quantity kubernetes.Quantity|sub kubernetes.Quantity int kubernetes.Quantity
ip - string net.IP|isIP - string bool|family net.IP - int|cidr - string net.CIDR|isCIDR - string bool
containsIP net.CIDR string bool|containsIP net.CIDR net.IP bool
ip.isCanonical - string bool|isUnspecified net.IP - bool|isLoopback net.IP - bool|isLinkLocalMulticast net.IP - bool
isLinkLocalUnicast net.IP - bool|isGlobalUnicast net.IP - bool|ip net.CIDR - net.IP|containsCIDR net.CIDR string bool
containsCIDR net.CIDR net.CIDR bool
masked net.CIDR - net.CIDR|prefixLength net.CIDR - int
semver - string kubernetes.Semver|semver - string,bool kubernetes.Semver|isSemver - string bool
isSemver - string,bool bool
isGreaterThan kubernetes.Semver kubernetes.Semver bool|isLessThan kubernetes.Semver kubernetes.Semver bool
compareTo kubernetes.Semver kubernetes.Semver int|major kubernetes.Semver - int|minor kubernetes.Semver - int
patch kubernetes.Semver - int
path kubernetes.authorization.Authorizer string kubernetes.authorization.PathCheck
group kubernetes.authorization.Authorizer string kubernetes.authorization.GroupCheck
serviceAccount kubernetes.authorization.Authorizer string,string kubernetes.authorization.Authorizer
resource kubernetes.authorization.GroupCheck string kubernetes.authorization.ResourceCheck
subresource kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
namespace kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
name kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
fieldSelector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
labelSelector kubernetes.authorization.ResourceCheck string kubernetes.authorization.ResourceCheck
check kubernetes.authorization.PathCheck string kubernetes.authorization.Decision
check kubernetes.authorization.ResourceCheck string kubernetes.authorization.Decision
allowed kubernetes.authorization.Decision - bool|reason kubernetes.authorization.Decision - string
errored kubernetes.authorization.Decision - bool|error kubernetes.authorization.Decision - string
jsonpatch.escapeKey - string string
getQuery kubernetes.URL - map(string,list(string))|format.named - string optional(kubernetes.NamedFormat)
validate kubernetes.NamedFormat string optional(list(string))
format.dns1123Label - - kubernetes.NamedFormat|format.dns1123Subdomain - - kubernetes.NamedFormat
format.dns1035Label - - kubernetes.NamedFormat
format.dns1123LabelPrefix - - kubernetes.NamedFormat|format.dns1123SubdomainPrefix - - kubernetes.NamedFormat
format.dns1035LabelPrefix - - kubernetes.NamedFormat|format.qualifiedName - - kubernetes.NamedFormat
format.labelValue - - kubernetes.NamedFormat
format.uri - - kubernetes.NamedFormat|format.uuid - - kubernetes.NamedFormat|format.byte - - kubernetes.NamedFormat
format.date - - kubernetes.NamedFormat|format.datetime - - kubernetes.NamedFormat
";

/// The types of one form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) receiver: Option<CelType>,
    pub(super) arguments: Vec<CelType>,
    pub(super) result: &'static str,
}

/// The forms of each function by its name.
pub(super) static OVERLOADS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut overloads: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
    for entry in FUNCTIONS.split(['|', '\n']).filter(|entry| !entry.is_empty()) {
        let mut words = entry.split(' ');
        let (Some(name), Some(receiver), Some(arguments), Some(result)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let receiver = (receiver != "-").then(|| named(receiver));
        let arguments = arguments.split(',').filter(|argument| *argument != "-").map(named).collect();
        overloads.entry(name).or_default().push(Overload { receiver, arguments, result });
    }
    overloads
});

/// Returns the type with this name as a value of expressions.
pub(super) fn type_named(name: &'static str) -> CelType {
    match name {
        "null_type" => CelType::Null,
        "optional_type" => CelType::Dyn.optional(),
        "google.protobuf.Duration" => CelType::Duration,
        "google.protobuf.Timestamp" => CelType::Timestamp,
        name => named(name),
    }
}

/// Returns the type of a name in the table.
pub(super) fn named(name: &'static str) -> CelType {
    match name {
        "string" => CelType::Text,
        "bytes" => CelType::Bytes,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "bool" => CelType::Bool,
        "timestamp" => CelType::Timestamp,
        "duration" => CelType::Duration,
        "type" => CelType::Type(Box::new(CelType::Dyn)),
        "list" => CelType::Dyn.list(),
        "list(string)" => CelType::Text.list(),
        "list(int)" => CelType::Int.list(),
        "map" => CelType::Map(Box::new(CelType::Dyn), Box::new(CelType::Dyn)),
        "optional" => CelType::Dyn.optional(),
        "optional(list(string))" => CelType::Text.list().optional(),
        "optional(kubernetes.NamedFormat)" => CelType::Other("kubernetes.NamedFormat").optional(),
        "map(string,list(string))" => CelType::Map(Box::new(CelType::Text), Box::new(CelType::Text.list())),
        "list(list)" => CelType::Dyn.list().list(),
        "list(optional)" => CelType::Dyn.optional().list(),
        "T" => CelType::Free,
        "dyn" => CelType::Dyn,
        other => CelType::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::{EvaluationError, evaluate, library};
    use super::*;
    use cel::ExecutionError;

    /// Returns an expression of a type; `None` for what only requests have.
    fn sample(ty: &CelType) -> Option<&'static str> {
        Some(match ty {
            CelType::Text => "'10.0.0.1'",
            CelType::Bytes => "b'1'",
            CelType::Int | CelType::Dyn | CelType::Free => "1",
            CelType::Uint => "1u",
            CelType::Double => "1.0",
            CelType::Bool => "true",
            CelType::Timestamp => "timestamp(1)",
            CelType::Duration => "duration('1s')",
            CelType::Type(_) => "int",
            CelType::Map(..) => "{'1': 1}",
            CelType::Optional(_) => "optional.of(1)",
            CelType::List(item) => match **item {
                CelType::List(_) => "[[1]]",
                CelType::Optional(_) => "[optional.of(1)]",
                CelType::Text => "['1']",
                _ => "[1]",
            },
            CelType::Other("kubernetes.URL") => "url('/a')",
            CelType::Other("kubernetes.Quantity") => "quantity('1')",
            CelType::Other("net.IP") => "ip('10.0.0.1')",
            CelType::Other("net.CIDR") => "cidr('10.0.0.0/8')",
            CelType::Other("kubernetes.Semver") => "semver('1.2.3')",
            CelType::Other("kubernetes.NamedFormat") => "format.uuid()",
            CelType::Null | CelType::Object(_) | CelType::Other(_) => return None,
        })
    }

    /// Returns a call of a function.
    fn call(name: &str, overload: &Overload) -> Option<String> {
        let receiver = match &overload.receiver {
            Some(ty) => format!("{}.", sample(ty)?),
            None => String::new(),
        };
        // An element of the receiver.
        let element = if overload.result == "same" && name == "or" { "optional.of(1)" } else { "1" };
        let argument = |ty: &CelType| if *ty == CelType::Free { Some(element) } else { sample(ty) };
        let arguments: Vec<&str> = overload.arguments.iter().map(argument).collect::<Option<_>>()?;
        Some(format!("{receiver}{name}({})", arguments.join(", ")))
    }

    #[test]
    fn every_function_can_be_called() {
        let mut missing = Vec::new();
        let mut called = 0;
        for (name, overload) in OVERLOADS.iter().flat_map(|(name, all)| all.iter().map(move |one| (*name, one))) {
            let Some(source) = call(name, overload) else { continue };
            called += 1;
            let program = parse(&source).expect(&source).program;
            let unsupported = match evaluate(&program, &library::ENV, Vec::new()).0 {
                // The value of an argument may be wrong.
                Ok(_) | Err(EvaluationError::Failed(ExecutionError::FunctionError { .. })) => false,
                Err(_) => true,
            };
            if unsupported {
                missing.push(source);
            }
        }
        assert_eq!(missing, Vec::<String>::new());
        assert!(called > 150, "{called}");
    }
}
