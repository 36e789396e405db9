//! The type table of `io.k8s.apimachinery.pkg.apis.meta.v1`.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.apimachinery.pkg.apis.meta.v1`.
pub(super) const META: &str = "\
= string: CauseType ConditionStatus DeletionPropagation FieldSelectorOperator LabelSelectorOperator
 ManagedFieldsOperationType StatusReason
Condition: type string!; status ConditionStatus!; observedGeneration int64; lastTransitionTime time!; reason string!;
 message string!
CreateOptions: &TypeMeta; dryRun []string=atomic; fieldManager string; fieldValidation string
DeleteOptions: &TypeMeta; gracePeriodSeconds *int64; preconditions *Preconditions; orphanDependents *bool;
 propagationPolicy *DeletionPropagation; dryRun []string=atomic; ignoreStoreReadErrorWithClusterBreakingPotential
 *bool
FieldSelectorRequirement: key string!; operator FieldSelectorOperator!; values []string=atomic
LabelSelector: =atomic matchLabels {}string; matchExpressions []LabelSelectorRequirement=atomic
LabelSelectorRequirement: key string!; operator LabelSelectorOperator!; values []string=atomic
ListMeta: selfLink string; resourceVersion string; continue string; remainingItemCount *int64; shardInfo *ShardInfo
ManagedFieldsEntry: manager string; operation ManagedFieldsOperationType; apiVersion string; time *time; fieldsType
 string; fieldsV1 *raw; subresource string
ObjectMeta: name string; generateName string; namespace string; selfLink string; uid types.UID; resourceVersion
 string; generation int64; creationTimestamp time~; deletionTimestamp *time; deletionGracePeriodSeconds *int64; labels
 {}string; annotations {}string; ownerReferences []OwnerReference@uid; finalizers []string%merge=set; managedFields
 []ManagedFieldsEntry=atomic
OwnerReference: =atomic apiVersion string!; kind string!; name string!; uid types.UID!; controller *bool;
 blockOwnerDeletion *bool
PartialObjectMetadata: &TypeMeta; metadata ObjectMeta
PatchOptions: &TypeMeta; dryRun []string=atomic; force *bool; fieldManager string; fieldValidation string
Preconditions: uid *types.UID; resourceVersion *string
ShardInfo: selector string!
Status: &TypeMeta; metadata ListMeta; status string; message string; reason StatusReason; details *StatusDetails; code
 int32
StatusCause: reason CauseType; message string; field string
StatusDetails: name string; group string; kind string; uid types.UID; causes []StatusCause=atomic; retryAfterSeconds
 int32
TypeMeta: kind string; apiVersion string
UpdateOptions: &TypeMeta; dryRun []string=atomic; fieldManager string; fieldValidation string
";
