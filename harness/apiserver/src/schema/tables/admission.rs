//! The type table of `io.k8s.api.admission.v1`: the reviews that webhooks answer. Written by hand after
//! `staging/src/k8s.io/api/admission/v1/types.go`, because no OpenAPI document has it; [`super`] has the notation.

/// Types of `io.k8s.api.admission.v1`, with the two of `meta/v1` that they use.
pub(super) const ADMISSION: &str = "\
= string: Operation PatchType
AdmissionRequest: uid types.UID!; kind GroupVersionKind!; resource GroupVersionResource!; subResource string;
 requestKind *GroupVersionKind; requestResource *GroupVersionResource; requestSubResource string; name string;
 namespace string; operation Operation!; userInfo authentication.UserInfo!; object raw; oldObject raw; dryRun *bool;
 options raw
AdmissionResponse: uid types.UID!; allowed bool!; status *meta.Status; patch bytes; patchType *PatchType;
 auditAnnotations {}string; warnings []string=atomic
AdmissionReview: &meta.TypeMeta; request *AdmissionRequest; response *AdmissionResponse
GroupVersionKind: group string!; version string!; kind string!
GroupVersionResource: group string!; version string!; resource string!
";
