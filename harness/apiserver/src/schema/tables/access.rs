//! The type tables of authentication, authorization, certificates, flowcontrol and RBAC.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.api.authentication.v1`.
pub(super) const AUTHENTICATION: &str = "\
= []string: ExtraValue
BoundObjectReference: kind string; apiVersion string; name string; uid types.UID
SelfSubjectReview: &meta.TypeMeta; metadata meta.ObjectMeta; status SelfSubjectReviewStatus
SelfSubjectReviewStatus: userInfo UserInfo
TokenRequest: &meta.TypeMeta; metadata meta.ObjectMeta; spec TokenRequestSpec!; status TokenRequestStatus
TokenRequestSpec: audiences []string!=atomic; expirationSeconds *int64!; boundObjectRef *BoundObjectReference!
TokenRequestStatus: token string!; expirationTimestamp time!
TokenReview: &meta.TypeMeta; metadata meta.ObjectMeta; spec TokenReviewSpec!; status TokenReviewStatus
TokenReviewSpec: token string; audiences []string=atomic
TokenReviewStatus: authenticated bool; user UserInfo; audiences []string=atomic; error string
UserInfo: username string; uid string; groups []string=atomic; extra {}ExtraValue
";

/// Types of `io.k8s.api.authorization.v1`.
pub(super) const AUTHORIZATION: &str = "\
= []string: ExtraValue
FieldSelectorAttributes: rawSelector string; requirements []meta.FieldSelectorRequirement=atomic
LabelSelectorAttributes: rawSelector string; requirements []meta.LabelSelectorRequirement=atomic
LocalSubjectAccessReview: &meta.TypeMeta; metadata meta.ObjectMeta; spec SubjectAccessReviewSpec!; status
 SubjectAccessReviewStatus
NonResourceAttributes: path string; verb string
NonResourceRule: verbs []string!=atomic; nonResourceURLs []string=atomic
ResourceAttributes: namespace string; verb string; group string; version string; resource string; subresource string;
 name string; fieldSelector *FieldSelectorAttributes; labelSelector *LabelSelectorAttributes
ResourceRule: verbs []string!=atomic; apiGroups []string=atomic; resources []string=atomic; resourceNames
 []string=atomic
SelfSubjectAccessReview: &meta.TypeMeta; metadata meta.ObjectMeta; spec SelfSubjectAccessReviewSpec!; status
 SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: resourceAttributes *ResourceAttributes; nonResourceAttributes *NonResourceAttributes
SelfSubjectRulesReview: &meta.TypeMeta; metadata meta.ObjectMeta; spec SelfSubjectRulesReviewSpec!; status
 SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: namespace string
SubjectAccessReview: &meta.TypeMeta; metadata meta.ObjectMeta; spec SubjectAccessReviewSpec!; status
 SubjectAccessReviewStatus
SubjectAccessReviewSpec: resourceAttributes *ResourceAttributes; nonResourceAttributes *NonResourceAttributes; user
 string; groups []string=atomic; extra {}ExtraValue; uid string
SubjectAccessReviewStatus: allowed bool!; denied bool; reason string; evaluationError string
SubjectRulesReviewStatus: resourceRules []ResourceRule!=atomic; nonResourceRules []NonResourceRule!=atomic; incomplete
 bool!; evaluationError string
";

/// Types of `io.k8s.api.certificates.v1`.
pub(super) const CERTIFICATES: &str = "\
= []string: ExtraValue
= string: KeyUsage RequestConditionType
CertificateSigningRequest: &meta.TypeMeta; metadata meta.ObjectMeta; spec CertificateSigningRequestSpec!; status
 CertificateSigningRequestStatus
CertificateSigningRequestCondition: type RequestConditionType!; status core.ConditionStatus!; reason string; message
 string; lastUpdateTime time; lastTransitionTime time
CertificateSigningRequestSpec: request bytes!; signerName string!; expirationSeconds *int32; usages []KeyUsage=atomic;
 username string; uid string; groups []string=atomic; extra {}ExtraValue
CertificateSigningRequestStatus: conditions []CertificateSigningRequestCondition=map(type); certificate bytes
";

/// Types of `io.k8s.api.flowcontrol.v1`.
pub(super) const FLOWCONTROL: &str = "\
= string: ConditionStatus FlowDistinguisherMethodType FlowSchemaConditionType LimitResponseType
 PriorityLevelConfigurationConditionType PriorityLevelEnablement SubjectKind
ExemptPriorityLevelConfiguration: nominalConcurrencyShares *int32; lendablePercent *int32
FlowDistinguisherMethod: type FlowDistinguisherMethodType!
FlowSchema: &meta.TypeMeta; metadata meta.ObjectMeta; spec FlowSchemaSpec; status FlowSchemaStatus
FlowSchemaCondition: type FlowSchemaConditionType; status ConditionStatus; lastTransitionTime time; reason string;
 message string
FlowSchemaSpec: priorityLevelConfiguration PriorityLevelConfigurationReference!; matchingPrecedence int32!;
 distinguisherMethod *FlowDistinguisherMethod; rules []PolicyRulesWithSubjects=atomic
FlowSchemaStatus: conditions []FlowSchemaCondition@type
GroupSubject: name string!
LimitResponse: type LimitResponseType!; queuing *QueuingConfiguration
LimitedPriorityLevelConfiguration: nominalConcurrencyShares *int32!; limitResponse LimitResponse; lendablePercent
 *int32; borrowingLimitPercent *int32
NonResourcePolicyRule: verbs []string!=set; nonResourceURLs []string!=set
PolicyRulesWithSubjects: subjects []Subject!=atomic; resourceRules []ResourcePolicyRule=atomic; nonResourceRules
 []NonResourcePolicyRule=atomic
PriorityLevelConfiguration: &meta.TypeMeta; metadata meta.ObjectMeta; spec PriorityLevelConfigurationSpec; status
 PriorityLevelConfigurationStatus
PriorityLevelConfigurationCondition: type PriorityLevelConfigurationConditionType; status ConditionStatus;
 lastTransitionTime time; reason string; message string
PriorityLevelConfigurationReference: name string!
PriorityLevelConfigurationSpec: type PriorityLevelEnablement!; limited *LimitedPriorityLevelConfiguration; exempt
 *ExemptPriorityLevelConfiguration
PriorityLevelConfigurationStatus: conditions []PriorityLevelConfigurationCondition@type
QueuingConfiguration: queues int32!; handSize int32!; queueLengthLimit int32!
ResourcePolicyRule: verbs []string!=set; apiGroups []string!=set; resources []string!=set; clusterScope bool;
 namespaces []string!=set
ServiceAccountSubject: namespace string!; name string!
Subject: kind SubjectKind!; user *UserSubject; group *GroupSubject; serviceAccount *ServiceAccountSubject
UserSubject: name string!
";

/// Types of `io.k8s.api.rbac.v1`.
pub(super) const RBAC: &str = "\
AggregationRule: clusterRoleSelectors []meta.LabelSelector=atomic
ClusterRole: &meta.TypeMeta; metadata meta.ObjectMeta; rules []PolicyRule!=atomic; aggregationRule *AggregationRule
ClusterRoleBinding: &meta.TypeMeta; metadata meta.ObjectMeta; subjects []Subject=atomic; roleRef RoleRef!
PolicyRule: verbs []string!=atomic; apiGroups []string=atomic; resources []string=atomic; resourceNames
 []string=atomic; nonResourceURLs []string=atomic
Role: &meta.TypeMeta; metadata meta.ObjectMeta; rules []PolicyRule!=atomic
RoleBinding: &meta.TypeMeta; metadata meta.ObjectMeta; subjects []Subject=atomic; roleRef RoleRef!
RoleRef: =atomic apiGroup string!; kind string!; name string!
Subject: =atomic kind string!; apiGroup string; name string!; namespace string
";
