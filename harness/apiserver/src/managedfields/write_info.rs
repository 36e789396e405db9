//! The attributes of a write that determine field ownership: the parameters of `fieldmanager.go` in
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal`.

use jiff::Timestamp;

use super::set::FieldSet;
use super::version_converter::VersionConverter;

/// The attributes of a write that determine field ownership.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteInfo<'a> {
    /// Field manager: `fieldManager`, or the user agent up to the first slash.
    pub manager: &'a str,
    /// API version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Subresource such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that the endpoint does not change ([`ResetFields`]).
    pub reset: Option<&'a FieldSet>,
    /// The other versions of the kind.
    pub versions: &'a dyn VersionConverter,
    /// The server's time.
    pub now: Timestamp,
}
