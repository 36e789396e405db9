//! The hash of a document. PURE. See `staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go`.

use ring::digest::{SHA512, digest};

/// Returns the SHA-512 of a document in upper-case hexadecimal. It is the document's `ETag`, in quotes, and the hash in
/// OpenAPI URLs.
pub(crate) fn document_hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    digest(&SHA512, bytes).as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}
