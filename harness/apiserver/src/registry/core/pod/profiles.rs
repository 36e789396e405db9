//! The profiles of `AppArmor` and seccomp in security contexts, and the annotations that held them before: the
//! constants of `pkg/apis/core/annotation_key_constants.go` and `pkg/apis/core/types.go`. PURE.

use crate::json::Value;
use crate::json::fields::non_null;

/// The lists of containers in a pod's spec.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The annotation of a container's `AppArmor` profile, before the container's name.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The annotation of a pod's seccomp profile.
pub(super) const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// The annotation of a container's seccomp profile, before the container's name.
pub(super) const CONTAINER_SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Returns a profile in the security context of a pod's spec or of a container.
pub(super) fn profile<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get("securityContext").and_then(|context| non_null(context, field))
}
