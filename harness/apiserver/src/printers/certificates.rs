//! Columns of certificate signing requests: requestor, signer and condition. Follows
//! `pkg/printers/internalversion/printers.go` of Kubernetes 1.36. PURE.

use super::column::{AGE, CellSource, Column, Description, NAME};
use super::duration::human_duration;
use super::format::{NONE, items, text, text_or};
use crate::json::{Value, json};

const SPEC: &str = "api.certificates.v1.CertificateSigningRequestSpec";

/// The columns of `certificatesigningrequests`.
pub(super) const CERTIFICATE_SIGNING_REQUESTS: &[Column] = &[
    NAME,
    AGE,
    Column::string(
        "SignerName",
        Description::Field(SPEC, "signerName"),
        CellSource::Custom(|request, _| json!(text_or(request, "/spec/signerName", NONE))),
    ),
    Column::string("Requestor", Description::Field(SPEC, "request"), CellSource::Text("/spec/username", "")),
    Column::string(
        "RequestedDuration",
        Description::Field(SPEC, "expirationSeconds"),
        CellSource::Custom(|request, _| {
            let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
            json!(seconds.map_or_else(|| NONE.to_owned(), human_duration))
        }),
    ),
    Column::string(
        "Condition",
        Description::Field("api.certificates.v1.CertificateSigningRequestStatus", "conditions"),
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
    use super::*;
    use rstest::rstest;

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
