//! Types of versions that Kubernetes removed, as far as they differ from the version that is stored. Kept by hand: the
//! Go types are in `staging/src/k8s.io`, but no published document has them. [`super`] has the notation.

/// Types of `io.k8s.api.policy.v1beta1`: strategic merge patches merge the selector.
pub(super) const POLICY: &str = "\
PodDisruptionBudgetSpec: minAvailable *intorstr; selector *meta.LabelSelector; maxUnavailable *intorstr;
 unhealthyPodEvictionPolicy *UnhealthyPodEvictionPolicyType
";

/// Types of `io.k8s.api.autoscaling.v2beta2`.
pub(super) const AUTOSCALING: &str = "\
HorizontalPodAutoscalerStatus: observedGeneration *int64; lastScaleTime *time; currentReplicas int32!; desiredReplicas
 int32!; currentMetrics []MetricStatus!=atomic; conditions []HorizontalPodAutoscalerCondition!=atomic
";

/// Types of `io.k8s.api.networking.v1beta1`.
pub(super) const NETWORKING: &str = "\
HTTPIngressPath: path string; pathType *PathType; backend IngressBackend!
IngressBackend: serviceName string; servicePort intorstr; resource *core.TypedLocalObjectReference
IngressSpec: ingressClassName *string; backend *IngressBackend; tls []IngressTLS=atomic; rules []IngressRule=atomic
";

/// Types of `io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1`.
pub(super) const APIEXTENSIONS: &str = "\
CustomResourceColumnDefinition: name string!; type string!; format string; description string; priority int32;
 JSONPath string!
CustomResourceConversion: strategy ConversionStrategyType!; webhookClientConfig *WebhookClientConfig;
 conversionReviewVersions []string=atomic
CustomResourceDefinitionSpec: group string!; version string; names CustomResourceDefinitionNames!; scope ResourceScope!;
 validation *CustomResourceValidation; subresources *CustomResourceSubresources; versions
 []CustomResourceDefinitionVersion=atomic; additionalPrinterColumns []CustomResourceColumnDefinition=atomic;
 selectableFields []SelectableField=atomic; conversion *CustomResourceConversion; preserveUnknownFields *bool
";
