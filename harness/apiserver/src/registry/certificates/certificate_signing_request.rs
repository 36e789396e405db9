//! `certificates.k8s.io/v1` `CertificateSigningRequest`.
//!
//! See `pkg/registry/certificates/certificates/strategy.go` and `pkg/apis/certificates/validation/validation.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, object_or_insert, str_field};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::duration::human_duration;
use crate::printers::format::{NONE, items, text, text_or};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::core::difflib;
use crate::registry::meta;
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::copy_field;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::time::rfc3339;
use crate::status::go_quote;
use crate::x509::CertificateRequest;

/// The resource `certificatesigningrequests` of `certificates.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "io.k8s.api.certificates.v1.CertificateSigningRequest",
    )
    .cluster()
    .short(&["csr"])
    .sub("approval", "", "", "CertificateSigningRequest", &["get", "patch", "update"])
    .status()
    .resets("", &[&["spec"], &["status"]])
    .resets("approval", &[&["spec"], &["status", "certificate"]])
    .resets("status", &[&["spec"], &["status", "conditions"]])
    .hash("95fRKMXA+00=")
    .fields(&[("spec.signerName", "")])
    .rules(CertificateSigningRequest)
    .columns(COLUMNS)
}

/// The strategy of certificate signing requests: records the requesting user, keeps the spec immutable, and lets
/// `/approval` write the conditions and `/status` the certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CertificateSigningRequest;

const APPROVED: &str = "Approved";

const DENIED: &str = "Denied";

const FAILED: &str = "Failed";

const SHORTEST_SECONDS: i64 = 600;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

impl Strategy for CertificateSigningRequest {
    fn default(&self, object: &mut Value) {
        object_or_insert(object, "spec");
        object_or_insert(object, "status");
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        if let Some(spec) = object_or_insert(object, "spec") {
            for field in ["username", "uid", "groups", "extra"] {
                spec.remove(field);
            }
            spec.insert("username", ctx.user.name.as_str().into());
            if !ctx.user.uid.is_empty() {
                spec.insert("uid", ctx.user.uid.as_str().into());
            }
            spec.insert("groups", json!(ctx.user.groups));
            if !ctx.user.extra.is_empty() {
                spec.insert("extra", json!(ctx.user.extra));
            }
        }
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({}));
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "spec");
        copy_field(new, old, "status");
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        validate_csr_update(new, old, false, false)
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        copy_field(new, old, "spec");
        for kind in [APPROVED, DENIED] {
            let kept: Vec<Value> = conditions_of_type(old, kind).cloned().collect();
            if kept.len() != conditions_of_type(new, kind).count() {
                continue;
            }
            let mut kept = kept.into_iter();
            each_condition(new, |condition| {
                if condition.get("type").is_some_and(|own| own == kind)
                    && let Some(Value::Object(before)) = kept.next()
                {
                    *condition = before;
                }
            });
        }
        default_condition_times(new, old, ctx);
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        validate_csr_update(new, old, false, true)
    }

    fn prepare_for_subresource_update(
        &self,
        _subresource: &str,
        new: &mut Value,
        old: &Value,
        ctx: &StrategyContext<'_>,
    ) {
        default_condition_times(new, old, ctx);
        let conditions = new.pointer_mut("/status/conditions").map(Value::take);
        copy_field(new, old, "spec");
        copy_field(new, old, "status");
        let Some(status) = object_or_insert(new, "status") else { return };
        match conditions {
            Some(conditions) => status.insert("conditions", conditions),
            None => status.remove("conditions"),
        };
    }

    fn validate_subresource_update(&self, _subresource: &str, new: &Value, old: &Value) -> ErrorList {
        validate_csr_update(new, old, true, false)
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.get("status").map_or(&[][..], |status| array_field(status, "conditions"))
}

fn conditions_of_type<'a>(object: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    conditions(object).iter().filter(move |condition| str_field(condition, "type") == kind)
}

fn each_condition(object: &mut Value, mut change: impl FnMut(&mut Map)) {
    let list = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut).for_each(&mut change);
}

/// Sets missing times of conditions; the transition time is kept as long as the status is unchanged.
fn default_condition_times(new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
    let now = Value::from(rfc3339(ctx.now));
    each_condition(new, |condition| {
        if is_empty_value(condition.get("lastUpdateTime")) {
            condition.insert("lastUpdateTime", now.clone());
        }
        if is_empty_value(condition.get("lastTransitionTime")) {
            let same =
                |before: &&Value| ["type", "status"].iter().all(|field| before.get(field) == condition.get(*field));
            let before = conditions(old).iter().find(same).and_then(|before| before.get("lastTransitionTime"));
            let time = before.filter(|time| !time.is_null()).unwrap_or(&now).clone();
            condition.insert("lastTransitionTime", time);
        }
    });
}

fn validate(object: &Value) -> ErrorList {
    let mut errors = meta::validate(object, false, NameFormat::PathSegment, &Path::new("metadata"));
    let empty = Value::Null;
    let spec = object.get("spec").unwrap_or(&empty);
    let path = Path::new("spec");
    let request = str_field(spec, "request");
    let pem = STANDARD.decode(request).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if !is_request(&pem) {
        let shown = non_null(spec, "request").map_or(BadValue::Raw("null".to_owned()), |_| BadValue::from(request));
        errors.invalid(&path.child("request"), shown, "PEM block type must be CERTIFICATE REQUEST");
    } else if let Err(error) = CertificateRequest::from_pem(&pem) {
        errors.invalid(&path.child("request"), request, error.to_string());
    }
    let usages: Vec<&str> = array_field(spec, "usages").iter().filter_map(Value::as_str).collect();
    let usages_path = path.child("usages");
    if usages.is_empty() {
        errors.required(&usages_path, "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.not_supported(&usages_path.index(index), *usage, &USAGES);
        }
    }
    let repeated = checks::repeated(&usages, |usage| *usage);
    for (index, usage) in usages.iter().enumerate().filter(|(index, _)| repeated[*index]) {
        errors.duplicate(&usages_path.index(index), *usage);
    }
    validate_signer(str_field(spec, "signerName"), &path.child("signerName"), &mut errors);
    if let Some(seconds) = spec.get("expirationSeconds").and_then(Value::as_i64).filter(|s| *s < SHORTEST_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&path.child("expirationSeconds"), seconds, why);
    }
    validate_conditions(conditions(object), &mut errors);
    if let Err(why) = validate_certificate(str_field(&object["status"], "certificate")) {
        let status = Path::new("status");
        errors.invalid(&status.child("certificate"), "<certificate data>", why);
    }
    errors
}

/// Returns what is wrong with a chain of certificates in base 64: `validateCertificate`.
fn validate_certificate(encoded: &str) -> Result<(), String> {
    const BEGIN: &str = "-----BEGIN ";
    if encoded.is_empty() {
        return Ok(());
    }
    let text = STANDARD.decode(encoded).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let blocks = text.split(BEGIN).skip(1).filter_map(|block| {
        let (kind, rest) = block.split_once("-----")?;
        let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
        Some((kind, body))
    });
    let mut count = 0;
    for (kind, body) in blocks {
        if kind != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", go_quote(kind)));
        }
        if body.contains(':') {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if body.trim().is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        count += 1;
    }
    if count == 0 { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}

/// Returns true if the text has a PEM block of the right type.
fn is_request(text: &str) -> bool {
    text.contains("-----BEGIN CERTIFICATE REQUEST-----") && text.contains("-----END CERTIFICATE REQUEST-----")
}

fn validate_signer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest domain and longest name in bytes.
    const DOMAIN_MAX: usize = 253;
    const SIGNER_NAME_MAX: usize = DOMAIN_MAX + 1 + DOMAIN_MAX + 1 + 63;
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        errors.invalid(path, name, "the legacy signerName is not allowed via this API version");
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        errors.invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
        return;
    };
    if domain.len() > DOMAIN_MAX {
        errors.too_long(path, DOMAIN_MAX);
    }
    signer_labels(domain, names::dns1123_label, path, errors);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    signer_labels(rest, names::dns1123_subdomain, path, errors);
    if name.len() > SIGNER_NAME_MAX {
        errors.too_long(path, SIGNER_NAME_MAX);
    }
}

/// Validates the labels of a part of a signer's name, up to the first one that is wrong.
fn signer_labels(part: &str, check: fn(&str) -> Vec<String>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(label) = part.split('.').find(|label| !check(label).is_empty()) {
        for message in check(label) {
            errors.invalid(path, part, format!("validating label {}: {message}", go_quote(label)));
        }
    }
}

fn validate_conditions(conditions: &[Value], errors: &mut ErrorList) {
    let status = Path::new("status");
    let path = status.child("conditions");
    let mut both = [false, false];
    let repeated = checks::repeated(conditions, |condition| str_field(condition, "type"));
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let kind = str_field(condition, "type");
        if kind.is_empty() {
            errors.required(&at.child("type"), "");
        }
        let allowed: &[&str] =
            if [APPROVED, DENIED, FAILED].contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match str_field(condition, "status") {
            "" => errors.required(&at.child("status"), ""),
            value if !allowed.contains(&value) => errors.not_supported(&at.child("status"), value, allowed),
            _ => {}
        }
        both[0] |= kind == APPROVED;
        both[1] |= kind == DENIED;
        if (kind == APPROVED || kind == DENIED) && both == [true, true] {
            errors.invalid(&path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if repeated[index] {
            errors.duplicate(&at.child("type"), kind);
        }
    }
}

/// Returns the difference of the conditions of a type, if there are as many as before and they differ.
fn changed_conditions(new: &Value, old: &Value, kind: &str) -> Option<String> {
    let count = |object| conditions_of_type(object, kind).count();
    let [after, before] = [new, old].map(|object| condition_lines(conditions_of_type(object, kind)));
    (count(new) == count(old) && after != before).then(|| difflib::unified(&before, &after))
}

/// Returns conditions as upstream marshals its internal type with indentation.
fn condition_lines<'a>(conditions: impl Iterator<Item = &'a Value>) -> Vec<String> {
    const FIELDS: [(&str, &str); 6] = [
        ("Type", "type"),
        ("Status", "status"),
        ("Reason", "reason"),
        ("Message", "message"),
        ("LastUpdateTime", "lastUpdateTime"),
        ("LastTransitionTime", "lastTransitionTime"),
    ];
    let shown = conditions.map(|condition| {
        let fields = FIELDS.map(|(name, field)| {
            let empty = if field.ends_with("Time") { Value::Null } else { json!("") };
            format!("  \"{name}\": {}", condition.get(field).unwrap_or(&empty))
        });
        format!(" {{\n{}\n }}", fields.join(",\n"))
    });
    let shown: Vec<String> = shown.collect();
    format!("[\n{}\n]", shown.join(",\n")).lines().map(str::to_owned).collect()
}

fn validate_csr_update(new: &Value, old: &Value, approves: bool, certifies: bool) -> ErrorList {
    let mut errors = validate(new);
    let status = Path::new("status");
    let path = status.child("conditions");
    for kind in [APPROVED, DENIED, FAILED] {
        if conditions_of_type(new, kind).count() < conditions_of_type(old, kind).count() {
            errors.forbidden(&path, format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    if !approves {
        for kind in [APPROVED, DENIED] {
            if conditions_of_type(new, kind).count() > conditions_of_type(old, kind).count() {
                errors.forbidden(&path, format!("updates may not add a condition of type {kind:?}"));
            } else if let Some(difference) = changed_conditions(new, old, kind) {
                errors.forbidden(&path, format!("updates may not modify a condition of type {kind:?}\n{difference}"));
            }
        }
    }
    let certificate =
        |object: &Value| object.pointer("/status/certificate").cloned().filter(|c| !is_empty_value(Some(c)));
    let before = certificate(old);
    let after = certificate(new);
    if before != after {
        let path = status.child("certificate");
        if !certifies {
            errors.forbidden(&path, "updates may not set certificate content");
        } else if before.is_some() {
            errors.forbidden(&path, "updates may not modify existing certificate content");
        }
    }
    errors.append(meta::validate_update(new, old, &Path::new("metadata")));
    errors
}

/// Upstream's columns have the descriptions of `v1beta1`.
const SIGNER_NAME: &str = concat!(
    "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. ",
    "If empty, it will be defaulted:\n",
    " 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n",
    " 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n",
    " 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\n",
    "Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`."
);

const SPEC_TYPE: &str = "api.certificates.v1.CertificateSigningRequestSpec";

/// The columns of `certificatesigningrequests`.
const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    Column::string(
        "SignerName",
        Description::Text(SIGNER_NAME),
        CellSource::Custom(|request, _| json!(text_or(request, "/spec/signerName", NONE))),
    ),
    Column::string(
        "Requestor",
        Description::Text("Base64-encoded PKCS#10 CSR data"),
        CellSource::Text("/spec/username", ""),
    ),
    Column::string(
        "RequestedDuration",
        Description::Field(SPEC_TYPE, "expirationSeconds"),
        CellSource::Custom(|request, _| {
            let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
            json!(seconds.map_or_else(|| NONE.to_owned(), human_duration))
        }),
    ),
    Column::string(
        "Condition",
        Description::Text("Conditions applied to the request, such as approval or denial."),
        CellSource::Custom(|request, _| json!(condition(request))),
    ),
];

/// Returns Denied, Approved or Pending in this order of precedence, with `,Failed` and `,Issued` appended.
fn condition(request: &Value) -> String {
    let has = |kind: &str| items(request, "/status/conditions").iter().any(|one| text(one, "/type") == kind);
    let mut shown = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `TestValidateCertificateSigningRequestUpdate` in `pkg/apis/certificates/validation/validation_test.go`.
    #[rstest]
    #[case::reason(json!([{"type": "Approved", "status": "True", "reason": "b"}]), "",
        Some("status.conditions: Forbidden: updates may not modify a condition of type \"Approved\"\n@@ -2,7 +2,7 @@\n"))]
    #[case::removed(json!([]), "",
        Some("status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""))]
    #[case::added(json!([{"type": "Approved", "status": "True", "reason": "a"}, {"type": "Failed", "status": "True"}]), "", None)]
    #[case::text(json!([{"type": "Approved", "status": "True", "reason": "a"}]), "aGVsbG8=", Some(
        "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block"))]
    #[case::empty(json!([{"type": "Approved", "status": "True", "reason": "a"}]),
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K", Some(
        "status.certificate: Invalid value: \"<certificate data>\": found CERTIFICATE PEM block containing 0 certificates"))]
    fn updates(#[case] conditions: Value, #[case] certificate: &str, #[case] expected: Option<&str>) {
        let old = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "a"}]}});
        let new = json!({"status": {"conditions": conditions, "certificate": certificate}});
        let errors = validate_csr_update(&new, &old, false, true);
        let of_status: Vec<String> =
            errors.iter().map(ToString::to_string).filter(|text| text.starts_with("status.")).collect();
        assert_eq!(of_status.len(), usize::from(expected.is_some()), "{of_status:?}");
        assert!(expected.is_none_or(|expected| of_status[0].starts_with(expected)), "{of_status:?}");
    }

    /// `TestValidateCertificateSigningRequestCreate` in the same file.
    #[rstest]
    #[case::fine("abc.io/x.y", None)]
    #[case::long_domain(&format!("{0}.{0}.{0}.{0}/x", "a".repeat(62)), None)]
    #[case::too_long_domain(&format!("{0}.{0}.{0}.{0}.b/x", "a".repeat(63)),
        Some("signerName: Too long: may not be more than 253 bytes"))]
    #[case::long_label(&format!("{}.io/x", "a".repeat(64)), Some("must be no more than 63 characters"))]
    #[case::long_path(&format!("a.io/{0}.{0}", "a".repeat(200)), None)]
    fn signers(#[case] name: &str, #[case] expected: Option<&str>) {
        let mut errors = ErrorList::new();
        validate_signer(name, &Path::new("signerName"), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), usize::from(expected.is_some()), "{errors:?}");
        assert!(expected.is_none_or(|expected| errors[0].ends_with(expected)), "{errors:?}");
    }

    /// `TestValidateCertificateSigningRequestUpdate` in the same file.
    #[rstest]
    #[case("", None)]
    #[case("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n", None)]
    #[case("x", Some("must contain at least one CERTIFICATE PEM block"))]
    #[case("-----BEGIN X-----\nYQ==\n-----END X-----\n", Some("only CERTIFICATE PEM blocks are allowed, found \"X\""))]
    #[case(
        "-----BEGIN CERTIFICATE-----\na: b\n\nYQ==\n-----END CERTIFICATE-----\n",
        Some("no PEM block headers are permitted")
    )]
    fn certificates(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(validate_certificate(&STANDARD.encode(text)).err().as_deref(), expected);
    }

    #[rstest]
    #[case(json!([]), "", "Pending")]
    #[case(json!([{"type": "Approved"}]), "", "Approved")]
    #[case(json!([{"type": "Approved"}]), "Yw==", "Approved,Issued")]
    #[case(json!([{"type": "Approved"}, {"type": "Failed"}]), "", "Approved,Failed")]
    #[case(json!([{"type": "Denied"}]), "", "Denied")]
    fn the_state_of_a_request(#[case] conditions: Value, #[case] certificate: &str, #[case] expected: &str) {
        assert_eq!(condition(&json!({"status": {"conditions": conditions, "certificate": certificate}})), expected);
    }
}
