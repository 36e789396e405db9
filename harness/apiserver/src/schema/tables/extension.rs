//! The type tables of the packages that extend the API: admission registration, custom resources and API services.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.api.admissionregistration.v1`.
pub(super) const ADMISSIONREGISTRATION: &str = "\
= string: FailurePolicyType MatchPolicyType OperationType ParameterNotFoundActionType PatchType ReinvocationPolicyType
 ScopeType SideEffectClass ValidationAction
ApplyConfiguration: expression string
AuditAnnotation: key string!; valueExpression string!
ExpressionWarning: fieldRef string!; warning string!
JSONPatch: expression string
MatchCondition: name string!; expression string!
MatchResources: =atomic namespaceSelector *meta.LabelSelector; objectSelector *meta.LabelSelector; resourceRules
 []NamedRuleWithOperations=atomic; excludeResourceRules []NamedRuleWithOperations=atomic; matchPolicy *MatchPolicyType
MutatingAdmissionPolicy: &meta.TypeMeta; metadata meta.ObjectMeta; spec MutatingAdmissionPolicySpec
MutatingAdmissionPolicyBinding: &meta.TypeMeta; metadata meta.ObjectMeta; spec MutatingAdmissionPolicyBindingSpec
MutatingAdmissionPolicyBindingSpec: policyName string; paramRef *ParamRef; matchResources *MatchResources
MutatingAdmissionPolicySpec: paramKind *ParamKind; matchConstraints *MatchResources; variables []Variable=atomic;
 mutations []Mutation=atomic; failurePolicy *FailurePolicyType; matchConditions []MatchCondition@name;
 reinvocationPolicy ReinvocationPolicyType
MutatingWebhook: name string!; clientConfig WebhookClientConfig!; rules []RuleWithOperations=atomic; failurePolicy
 *FailurePolicyType; matchPolicy *MatchPolicyType; namespaceSelector *meta.LabelSelector; objectSelector
 *meta.LabelSelector; sideEffects *SideEffectClass!; timeoutSeconds *int32; admissionReviewVersions []string!=atomic;
 reinvocationPolicy *ReinvocationPolicyType; matchConditions []MatchCondition@name
MutatingWebhookConfiguration: &meta.TypeMeta; metadata meta.ObjectMeta; webhooks []MutatingWebhook@name
Mutation: patchType PatchType!; applyConfiguration *ApplyConfiguration; jsonPatch *JSONPatch
NamedRuleWithOperations: =atomic resourceNames []string=atomic; &RuleWithOperations
ParamKind: =atomic apiVersion string; kind string
ParamRef: =atomic name string; namespace string; selector *meta.LabelSelector; parameterNotFoundAction
 *ParameterNotFoundActionType
Rule: apiGroups []string=atomic; apiVersions []string=atomic; resources []string=atomic; scope *ScopeType
RuleWithOperations: operations []OperationType=atomic; &Rule
ServiceReference: namespace string!; name string!; path *string; port *int32
TypeChecking: expressionWarnings []ExpressionWarning=atomic
ValidatingAdmissionPolicy: &meta.TypeMeta; metadata meta.ObjectMeta; spec ValidatingAdmissionPolicySpec; status
 ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding: &meta.TypeMeta; metadata meta.ObjectMeta; spec ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec: policyName string; paramRef *ParamRef; matchResources *MatchResources;
 validationActions []ValidationAction=set
ValidatingAdmissionPolicySpec: paramKind *ParamKind; matchConstraints *MatchResources; validations
 []Validation=atomic; failurePolicy *FailurePolicyType; auditAnnotations []AuditAnnotation=atomic; matchConditions
 []MatchCondition@name; variables []Variable@name
ValidatingAdmissionPolicyStatus: observedGeneration int64; typeChecking *TypeChecking; conditions
 []meta.Condition=map(type)
ValidatingWebhook: name string!; clientConfig WebhookClientConfig!; rules []RuleWithOperations=atomic; failurePolicy
 *FailurePolicyType; matchPolicy *MatchPolicyType; namespaceSelector *meta.LabelSelector; objectSelector
 *meta.LabelSelector; sideEffects *SideEffectClass!; timeoutSeconds *int32; admissionReviewVersions []string!=atomic;
 matchConditions []MatchCondition@name
ValidatingWebhookConfiguration: &meta.TypeMeta; metadata meta.ObjectMeta; webhooks []ValidatingWebhook@name
Validation: expression string!; message string; reason *meta.StatusReason; messageExpression string
Variable: =atomic name string!; expression string!
WebhookClientConfig: url *string; service *ServiceReference; caBundle bytes
";

/// Types of `io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1`.
pub(super) const APIEXTENSIONS: &str = "\
= []ValidationRule: ValidationRules
= string: ConditionStatus ConversionStrategyType CustomResourceDefinitionConditionType FieldValueErrorReason
 JSONSchemaURL ResourceScope
= {}JSONSchemaProps: JSONSchemaDefinitions
= {}props-or-strings: JSONSchemaDependencies
ConversionRequest: uid types.UID!; desiredAPIVersion string!; objects []raw!=atomic
ConversionResponse: uid types.UID!; convertedObjects []raw!=atomic; result meta.Status!
ConversionReview: &meta.TypeMeta; request *ConversionRequest; response *ConversionResponse
CustomResourceColumnDefinition: name string!; type string!; format string; description string; priority int32;
 jsonPath string!
CustomResourceConversion: strategy ConversionStrategyType!; webhook *WebhookConversion
CustomResourceDefinition: &meta.TypeMeta; metadata meta.ObjectMeta; spec CustomResourceDefinitionSpec!; status
 CustomResourceDefinitionStatus
CustomResourceDefinitionCondition: type CustomResourceDefinitionConditionType!; status ConditionStatus!;
 lastTransitionTime time; reason string; message string; observedGeneration int64
CustomResourceDefinitionNames: plural string!; singular string; shortNames []string=atomic; kind string!; listKind
 string; categories []string=atomic
CustomResourceDefinitionSpec: group string!; names CustomResourceDefinitionNames!; scope ResourceScope!; versions
 []CustomResourceDefinitionVersion!=atomic; conversion *CustomResourceConversion; preserveUnknownFields bool
CustomResourceDefinitionStatus: conditions []CustomResourceDefinitionCondition!=map(type); acceptedNames
 CustomResourceDefinitionNames!; storedVersions []string!=atomic; observedGeneration int64
CustomResourceDefinitionVersion: name string!; served bool!; storage bool!; deprecated bool; deprecationWarning
 *string; schema *CustomResourceValidation; subresources *CustomResourceSubresources; additionalPrinterColumns
 []CustomResourceColumnDefinition=atomic; selectableFields []SelectableField=atomic
CustomResourceSubresourceScale: specReplicasPath string!; statusReplicasPath string!; labelSelectorPath *string
CustomResourceSubresourceStatus:
CustomResourceSubresources: status *CustomResourceSubresourceStatus; scale *CustomResourceSubresourceScale
CustomResourceValidation: openAPIV3Schema *JSONSchemaProps
ExternalDocumentation: description string; url string
JSONSchemaProps: id string; $schema JSONSchemaURL; $ref *string; description string; type string; format string; title
 string; default *json; maximum *float64; exclusiveMaximum bool; minimum *float64; exclusiveMinimum bool; maxLength
 *int64; minLength *int64; pattern string; maxItems *int64; minItems *int64; uniqueItems bool; multipleOf *float64;
 enum []json=atomic; maxProperties *int64; minProperties *int64; required []string=atomic; items *props-or-array;
 allOf []JSONSchemaProps=atomic; oneOf []JSONSchemaProps=atomic; anyOf []JSONSchemaProps=atomic; not *JSONSchemaProps;
 properties {}JSONSchemaProps; additionalProperties *props-or-bool; patternProperties {}JSONSchemaProps; dependencies
 JSONSchemaDependencies; additionalItems *props-or-bool; definitions JSONSchemaDefinitions; externalDocs
 *ExternalDocumentation; example *json; nullable bool; x-kubernetes-preserve-unknown-fields *bool;
 x-kubernetes-embedded-resource bool; x-kubernetes-int-or-string bool; x-kubernetes-list-map-keys []string=atomic;
 x-kubernetes-list-type *string; x-kubernetes-map-type *string; x-kubernetes-validations ValidationRules@rule
SelectableField: jsonPath string!
ServiceReference: namespace string!; name string!; path *string; port *int32
ValidationRule: rule string!; message string; messageExpression string; reason *FieldValueErrorReason; fieldPath
 string; optionalOldSelf *bool
WebhookClientConfig: url *string; service *ServiceReference; caBundle bytes
WebhookConversion: clientConfig *WebhookClientConfig; conversionReviewVersions []string!=atomic
";

/// Types of `io.k8s.kube-aggregator.pkg.apis.apiregistration.v1`.
pub(super) const APIREGISTRATION: &str = "\
= string: APIServiceConditionType ConditionStatus
APIService: &meta.TypeMeta; metadata meta.ObjectMeta; spec APIServiceSpec; status APIServiceStatus
APIServiceCondition: type APIServiceConditionType!; status ConditionStatus!; lastTransitionTime time; reason string;
 message string
APIServiceSpec: service *ServiceReference; group string; version string; insecureSkipTLSVerify bool; caBundle
 bytes=atomic; groupPriorityMinimum int32!; versionPriority int32!
APIServiceStatus: conditions []APIServiceCondition@type
ServiceReference: namespace string; name string; port *int32
";
