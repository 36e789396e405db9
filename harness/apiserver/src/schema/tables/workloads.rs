//! The type tables of apps, autoscaling, batch, policy and scheduling.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.api.apps.v1`.
pub(super) const APPS: &str = "\
= string: DaemonSetConditionType DaemonSetUpdateStrategyType DeploymentConditionType DeploymentStrategyType
 PersistentVolumeClaimRetentionPolicyType PodManagementPolicyType ReplicaSetConditionType StatefulSetConditionType
 StatefulSetUpdateStrategyType
ControllerRevision: &meta.TypeMeta; metadata meta.ObjectMeta; data raw; revision int64!
DaemonSet: &meta.TypeMeta; metadata meta.ObjectMeta; spec DaemonSetSpec; status DaemonSetStatus
DaemonSetCondition: type DaemonSetConditionType!; status core.ConditionStatus!; lastTransitionTime time; reason
 string; message string
DaemonSetSpec: selector *meta.LabelSelector!; template core.PodTemplateSpec!; updateStrategy DaemonSetUpdateStrategy;
 minReadySeconds int32; revisionHistoryLimit *int32
DaemonSetStatus: currentNumberScheduled int32!; numberMisscheduled int32!; desiredNumberScheduled int32!; numberReady
 int32!; observedGeneration int64; updatedNumberScheduled int32; numberAvailable int32; numberUnavailable int32;
 collisionCount *int32; conditions []DaemonSetCondition@type
DaemonSetUpdateStrategy: type DaemonSetUpdateStrategyType; rollingUpdate *RollingUpdateDaemonSet
Deployment: &meta.TypeMeta; metadata meta.ObjectMeta; spec DeploymentSpec; status DeploymentStatus
DeploymentCondition: type DeploymentConditionType!; status core.ConditionStatus!; lastUpdateTime time;
 lastTransitionTime time; reason string; message string
DeploymentSpec: replicas *int32; selector *meta.LabelSelector!; template core.PodTemplateSpec!; strategy
 DeploymentStrategy%retainKeys; minReadySeconds int32; revisionHistoryLimit *int32; paused bool;
 progressDeadlineSeconds *int32
DeploymentStatus: observedGeneration int64; replicas int32; updatedReplicas int32; readyReplicas int32;
 availableReplicas int32; unavailableReplicas int32; terminatingReplicas *int32; conditions
 []DeploymentCondition@type; collisionCount *int32
DeploymentStrategy: type DeploymentStrategyType; rollingUpdate *RollingUpdateDeployment
ReplicaSet: &meta.TypeMeta; metadata meta.ObjectMeta; spec ReplicaSetSpec; status ReplicaSetStatus
ReplicaSetCondition: type ReplicaSetConditionType!; status core.ConditionStatus!; lastTransitionTime time; reason
 string; message string
ReplicaSetSpec: replicas *int32; minReadySeconds int32; selector *meta.LabelSelector!; template core.PodTemplateSpec
ReplicaSetStatus: replicas int32!; fullyLabeledReplicas int32; readyReplicas int32; availableReplicas int32;
 terminatingReplicas *int32; observedGeneration int64; conditions []ReplicaSetCondition@type
RollingUpdateDaemonSet: maxUnavailable *intorstr; maxSurge *intorstr
RollingUpdateDeployment: maxUnavailable *intorstr; maxSurge *intorstr
RollingUpdateStatefulSetStrategy: partition *int32; maxUnavailable *intorstr
StatefulSet: &meta.TypeMeta; metadata meta.ObjectMeta; spec StatefulSetSpec; status StatefulSetStatus
StatefulSetCondition: type StatefulSetConditionType!; status core.ConditionStatus!; lastTransitionTime time; reason
 string; message string
StatefulSetOrdinals: start int32!
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted PersistentVolumeClaimRetentionPolicyType; whenScaled
 PersistentVolumeClaimRetentionPolicyType
StatefulSetSpec: replicas *int32; selector *meta.LabelSelector!; template core.PodTemplateSpec!; volumeClaimTemplates
 []core.PersistentVolumeClaim=atomic; serviceName string!; podManagementPolicy PodManagementPolicyType; updateStrategy
 StatefulSetUpdateStrategy; revisionHistoryLimit *int32; minReadySeconds int32; persistentVolumeClaimRetentionPolicy
 *StatefulSetPersistentVolumeClaimRetentionPolicy; ordinals *StatefulSetOrdinals
StatefulSetStatus: observedGeneration int64; replicas int32!; readyReplicas int32; currentReplicas int32;
 updatedReplicas int32; currentRevision string; updateRevision string; collisionCount *int32; conditions
 []StatefulSetCondition@type; availableReplicas int32!
StatefulSetUpdateStrategy: type StatefulSetUpdateStrategyType; rollingUpdate *RollingUpdateStatefulSetStrategy
";

/// Types of `io.k8s.api.autoscaling.v1`.
pub(super) const AUTOSCALING: &str = "\
CrossVersionObjectReference: =atomic kind string!; name string!; apiVersion string
HorizontalPodAutoscaler: &meta.TypeMeta; metadata meta.ObjectMeta; spec HorizontalPodAutoscalerSpec; status
 HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: scaleTargetRef CrossVersionObjectReference!; minReplicas *int32; maxReplicas int32!;
 targetCPUUtilizationPercentage *int32
HorizontalPodAutoscalerStatus: observedGeneration *int64; lastScaleTime *time; currentReplicas int32!; desiredReplicas
 int32!; currentCPUUtilizationPercentage *int32
Scale: &meta.TypeMeta; metadata meta.ObjectMeta; spec ScaleSpec; status ScaleStatus
ScaleSpec: replicas int32
ScaleStatus: replicas int32!; selector string
";

/// Types of `io.k8s.api.autoscaling.v2`.
pub(super) const AUTOSCALINGV2: &str = "\
= string: HPAScalingPolicyType HorizontalPodAutoscalerConditionType MetricSourceType MetricTargetType
 ScalingPolicySelect
ContainerResourceMetricSource: name core.ResourceName!; target MetricTarget!; container string!
ContainerResourceMetricStatus: name core.ResourceName!; current MetricValueStatus!; container string!
CrossVersionObjectReference: kind string!; name string!; apiVersion string
ExternalMetricSource: metric MetricIdentifier!; target MetricTarget!
ExternalMetricStatus: metric MetricIdentifier!; current MetricValueStatus!
HPAScalingPolicy: type HPAScalingPolicyType!; value int32!; periodSeconds int32!
HPAScalingRules: stabilizationWindowSeconds *int32; selectPolicy *ScalingPolicySelect; policies
 []HPAScalingPolicy=atomic; tolerance *quantity
HorizontalPodAutoscaler: &meta.TypeMeta; metadata meta.ObjectMeta; spec HorizontalPodAutoscalerSpec; status
 HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior: scaleUp *HPAScalingRules; scaleDown *HPAScalingRules
HorizontalPodAutoscalerCondition: type HorizontalPodAutoscalerConditionType!; status core.ConditionStatus!;
 lastTransitionTime time; reason string; message string
HorizontalPodAutoscalerSpec: scaleTargetRef CrossVersionObjectReference!; minReplicas *int32; maxReplicas int32!;
 metrics []MetricSpec=atomic; behavior *HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus: observedGeneration *int64; lastScaleTime *time; currentReplicas int32; desiredReplicas
 int32!; currentMetrics []MetricStatus!=atomic; conditions []HorizontalPodAutoscalerCondition@type
MetricIdentifier: name string!; selector *meta.LabelSelector
MetricSpec: type MetricSourceType!; object *ObjectMetricSource; pods *PodsMetricSource; resource
 *ResourceMetricSource; containerResource *ContainerResourceMetricSource; external *ExternalMetricSource
MetricStatus: type MetricSourceType!; object *ObjectMetricStatus; pods *PodsMetricStatus; resource
 *ResourceMetricStatus; containerResource *ContainerResourceMetricStatus; external *ExternalMetricStatus
MetricTarget: type MetricTargetType!; value *quantity; averageValue *quantity; averageUtilization *int32
MetricValueStatus: value *quantity; averageValue *quantity; averageUtilization *int32
ObjectMetricSource: describedObject CrossVersionObjectReference!; target MetricTarget!; metric MetricIdentifier!
ObjectMetricStatus: metric MetricIdentifier!; current MetricValueStatus!; describedObject CrossVersionObjectReference!
PodsMetricSource: metric MetricIdentifier!; target MetricTarget!
PodsMetricStatus: metric MetricIdentifier!; current MetricValueStatus!
ResourceMetricSource: name core.ResourceName!; target MetricTarget!
ResourceMetricStatus: name core.ResourceName!; current MetricValueStatus!
";

/// Types of `io.k8s.api.batch.v1`.
pub(super) const BATCH: &str = "\
= string: CompletionMode ConcurrencyPolicy JobConditionType PodFailurePolicyAction PodFailurePolicyOnExitCodesOperator
 PodReplacementPolicy
CronJob: &meta.TypeMeta; metadata meta.ObjectMeta; spec CronJobSpec; status CronJobStatus
CronJobSpec: schedule string!; timeZone *string; startingDeadlineSeconds *int64; concurrencyPolicy ConcurrencyPolicy;
 suspend *bool; jobTemplate JobTemplateSpec!; successfulJobsHistoryLimit *int32; failedJobsHistoryLimit *int32
CronJobStatus: active []core.ObjectReference=atomic; lastScheduleTime *time; lastSuccessfulTime *time
Job: &meta.TypeMeta; metadata meta.ObjectMeta; spec JobSpec; status JobStatus
JobCondition: type JobConditionType!; status core.ConditionStatus!; lastProbeTime time; lastTransitionTime time;
 reason string; message string
JobSpec: parallelism *int32; completions *int32; activeDeadlineSeconds *int64; podFailurePolicy *PodFailurePolicy;
 successPolicy *SuccessPolicy; backoffLimit *int32; backoffLimitPerIndex *int32; maxFailedIndexes *int32; selector
 *meta.LabelSelector; manualSelector *bool; template core.PodTemplateSpec!; ttlSecondsAfterFinished *int32;
 completionMode *CompletionMode; suspend *bool; podReplacementPolicy *PodReplacementPolicy; managedBy *string
JobStatus: conditions []JobCondition%merge(type)=atomic; startTime *time; completionTime *time; active int32;
 succeeded int32; failed int32; terminating *int32; completedIndexes string; failedIndexes *string;
 uncountedTerminatedPods *UncountedTerminatedPods; ready *int32
JobTemplateSpec: metadata meta.ObjectMeta; spec JobSpec
PodFailurePolicy: rules []PodFailurePolicyRule!=atomic
PodFailurePolicyOnExitCodesRequirement: containerName *string; operator PodFailurePolicyOnExitCodesOperator!; values
 []int32!=set
PodFailurePolicyOnPodConditionsPattern: type core.PodConditionType!; status core.ConditionStatus!
PodFailurePolicyRule: action PodFailurePolicyAction!; onExitCodes *PodFailurePolicyOnExitCodesRequirement;
 onPodConditions []PodFailurePolicyOnPodConditionsPattern=atomic
SuccessPolicy: rules []SuccessPolicyRule!=atomic
SuccessPolicyRule: succeededIndexes *string; succeededCount *int32
UncountedTerminatedPods: succeeded []types.UID=set; failed []types.UID=set
";

/// Types of `io.k8s.api.policy.v1`.
pub(super) const POLICY: &str = "\
= string: UnhealthyPodEvictionPolicyType
Eviction: &meta.TypeMeta; metadata meta.ObjectMeta; deleteOptions *meta.DeleteOptions
PodDisruptionBudget: &meta.TypeMeta; metadata meta.ObjectMeta; spec PodDisruptionBudgetSpec; status
 PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: minAvailable *intorstr; selector *meta.LabelSelector%replace; maxUnavailable *intorstr;
 unhealthyPodEvictionPolicy *UnhealthyPodEvictionPolicyType
PodDisruptionBudgetStatus: observedGeneration int64; disruptedPods {}time; disruptionsAllowed int32!; currentHealthy
 int32!; desiredHealthy int32!; expectedPods int32!; conditions []meta.Condition@type
";

/// Types of `io.k8s.api.scheduling.v1`.
pub(super) const SCHEDULING: &str = "\
PriorityClass: &meta.TypeMeta; metadata meta.ObjectMeta; value int32!; globalDefault bool; description string;
 preemptionPolicy *core.PreemptionPolicy
";
