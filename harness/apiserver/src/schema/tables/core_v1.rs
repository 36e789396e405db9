//! The type table of `io.k8s.api.core.v1`.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.api.core.v1`.
pub(super) const CORE: &str = "\
= string: AppArmorProfileType AzureDataDiskCachingMode AzureDataDiskKind Capability ClaimResourceStatus
 ComponentConditionType ConditionStatus ContainerRestartPolicy ContainerRestartRuleAction
 ContainerRestartRuleOnExitCodesOperator DNSPolicy FinalizerName HostPathType IPFamily IPFamilyPolicy LimitType
 LoadBalancerIPMode MountPropagationMode NamespaceConditionType NamespacePhase NodeAddressType NodeConditionType
 NodeInclusionPolicy NodePhase NodeSelectorOperator OSName PersistentVolumeAccessMode
 PersistentVolumeClaimConditionType PersistentVolumeClaimModifyVolumeStatus PersistentVolumeClaimPhase
 PersistentVolumeMode PersistentVolumePhase PersistentVolumeReclaimPolicy PodConditionType PodFSGroupChangePolicy
 PodPhase PodQOSClass PodResizeStatus PodSELinuxChangePolicy PreemptionPolicy ProcMountType Protocol PullPolicy
 RecursiveReadOnlyMode ReplicationControllerConditionType ResourceHealthStatus ResourceID ResourceName
 ResourceQuotaScope ResourceResizeRestartPolicy RestartPolicy ScopeSelectorOperator SeccompProfileType SecretType
 ServiceAffinity ServiceExternalTrafficPolicy ServiceInternalTrafficPolicy ServiceType Signal StorageMedium
 SupplementalGroupsPolicy TaintEffect TerminationMessagePolicy TolerationOperator URIScheme UniqueVolumeName
 UnsatisfiableConstraintAction
= {ResourceName}quantity: ResourceList
AWSElasticBlockStoreVolumeSource: volumeID string!; fsType string; partition int32; readOnly bool
Affinity: nodeAffinity *NodeAffinity; podAffinity *PodAffinity; podAntiAffinity *PodAntiAffinity
AppArmorProfile: type AppArmorProfileType!; localhostProfile *string
AttachedVolume: name UniqueVolumeName!; devicePath string!
AzureDiskVolumeSource: diskName string!; diskURI string!; cachingMode *AzureDataDiskCachingMode; fsType *string;
 readOnly *bool; kind *AzureDataDiskKind
AzureFilePersistentVolumeSource: secretName string!; shareName string!; readOnly bool; secretNamespace *string!
AzureFileVolumeSource: secretName string!; shareName string!; readOnly bool
Binding: &meta.TypeMeta; metadata meta.ObjectMeta; target ObjectReference!
CSIPersistentVolumeSource: driver string!; volumeHandle string!; readOnly bool; fsType string; volumeAttributes
 {}string; controllerPublishSecretRef *SecretReference; nodeStageSecretRef *SecretReference; nodePublishSecretRef
 *SecretReference; controllerExpandSecretRef *SecretReference; nodeExpandSecretRef *SecretReference
CSIVolumeSource: driver string!; readOnly *bool; fsType *string; volumeAttributes {}string; nodePublishSecretRef
 *LocalObjectReference
Capabilities: add []Capability=atomic; drop []Capability=atomic
CephFSPersistentVolumeSource: monitors []string!=atomic; path string; user string; secretFile string; secretRef
 *SecretReference; readOnly bool
CephFSVolumeSource: monitors []string!=atomic; path string; user string; secretFile string; secretRef
 *LocalObjectReference; readOnly bool
CinderPersistentVolumeSource: volumeID string!; fsType string; readOnly bool; secretRef *SecretReference
CinderVolumeSource: volumeID string!; fsType string; readOnly bool; secretRef *LocalObjectReference
ClientIPConfig: timeoutSeconds *int32
ClusterTrustBundleProjection: name *string; signerName *string; labelSelector *meta.LabelSelector; optional *bool;
 path string!
ComponentCondition: type ComponentConditionType!; status ConditionStatus!; message string; error string
ComponentStatus: &meta.TypeMeta; metadata meta.ObjectMeta; conditions []ComponentCondition@type
ConfigMap: &meta.TypeMeta; metadata meta.ObjectMeta; immutable *bool; data {}string; binaryData {}bytes
ConfigMapEnvSource: &LocalObjectReference; optional *bool
ConfigMapKeySelector: =atomic &LocalObjectReference; key string!; optional *bool
ConfigMapNodeConfigSource: namespace string!; name string!; uid types.UID; resourceVersion string; kubeletConfigKey
 string!
ConfigMapProjection: &LocalObjectReference; items []KeyToPath=atomic; optional *bool
ConfigMapVolumeSource: &LocalObjectReference; items []KeyToPath=atomic; defaultMode *int32; optional *bool
Container: name string!; image string; command []string=atomic; args []string=atomic; workingDir string; ports
 []ContainerPort@containerPort,protocol; envFrom []EnvFromSource=atomic; env []EnvVar@name; resources
 ResourceRequirements; resizePolicy []ContainerResizePolicy=atomic; restartPolicy *ContainerRestartPolicy;
 restartPolicyRules []ContainerRestartRule=atomic; volumeMounts []VolumeMount@mountPath; volumeDevices
 []VolumeDevice@devicePath; livenessProbe *Probe; readinessProbe *Probe; startupProbe *Probe; lifecycle *Lifecycle;
 terminationMessagePath string; terminationMessagePolicy TerminationMessagePolicy; imagePullPolicy PullPolicy;
 securityContext *SecurityContext; stdin bool; stdinOnce bool; tty bool
ContainerExtendedResourceRequest: containerName string!; resourceName string!; requestName string!
ContainerImage: names []string!=atomic; sizeBytes int64
ContainerPort: name string; hostPort int32; containerPort int32!; protocol Protocol:TCP; hostIP string
ContainerResizePolicy: resourceName ResourceName!; restartPolicy ResourceResizeRestartPolicy!
ContainerRestartRule: action ContainerRestartRuleAction; exitCodes *ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator ContainerRestartRuleOnExitCodesOperator; values []int32=set
ContainerState: waiting *ContainerStateWaiting; running *ContainerStateRunning; terminated *ContainerStateTerminated
ContainerStateRunning: startedAt time
ContainerStateTerminated: exitCode int32!; signal int32; reason string; message string; startedAt time; finishedAt
 time; containerID string
ContainerStateWaiting: reason string; message string
ContainerStatus: name string!; state ContainerState; lastState ContainerState; ready bool!; restartCount int32!; image
 string!; imageID string!; containerID string; started *bool; allocatedResources ResourceList; resources
 *ResourceRequirements; volumeMounts []VolumeMountStatus@mountPath; user *ContainerUser; allocatedResourcesStatus
 []ResourceStatus@name; stopSignal *Signal
ContainerUser: linux *LinuxContainerUser
DaemonEndpoint: Port int32!
DownwardAPIProjection: items []DownwardAPIVolumeFile=atomic
DownwardAPIVolumeFile: path string!; fieldRef *ObjectFieldSelector; resourceFieldRef *ResourceFieldSelector; mode
 *int32
DownwardAPIVolumeSource: items []DownwardAPIVolumeFile=atomic; defaultMode *int32
EmptyDirVolumeSource: medium StorageMedium; sizeLimit *quantity
EndpointAddress: =atomic ip string!; hostname string; nodeName *string; targetRef *ObjectReference
EndpointPort: =atomic name string; port int32!; protocol Protocol; appProtocol *string
EndpointSubset: addresses []EndpointAddress=atomic; notReadyAddresses []EndpointAddress=atomic; ports
 []EndpointPort=atomic
Endpoints: &meta.TypeMeta; metadata meta.ObjectMeta; subsets []EndpointSubset=atomic
EnvFromSource: prefix string; configMapRef *ConfigMapEnvSource; secretRef *SecretEnvSource
EnvVar: name string!; value string; valueFrom *EnvVarSource
EnvVarSource: fieldRef *ObjectFieldSelector; resourceFieldRef *ResourceFieldSelector; configMapKeyRef
 *ConfigMapKeySelector; secretKeyRef *SecretKeySelector; fileKeyRef *FileKeySelector
EphemeralContainer: &EphemeralContainerCommon; targetContainerName string
EphemeralContainerCommon: name string!; image string; command []string=atomic; args []string=atomic; workingDir
 string; ports []ContainerPort@containerPort,protocol; envFrom []EnvFromSource=atomic; env []EnvVar@name; resources
 ResourceRequirements; resizePolicy []ContainerResizePolicy=atomic; restartPolicy *ContainerRestartPolicy;
 restartPolicyRules []ContainerRestartRule=atomic; volumeMounts []VolumeMount@mountPath; volumeDevices
 []VolumeDevice@devicePath; livenessProbe *Probe; readinessProbe *Probe; startupProbe *Probe; lifecycle *Lifecycle;
 terminationMessagePath string; terminationMessagePolicy TerminationMessagePolicy; imagePullPolicy PullPolicy;
 securityContext *SecurityContext; stdin bool; stdinOnce bool; tty bool
EphemeralVolumeSource: volumeClaimTemplate *PersistentVolumeClaimTemplate
Event: &meta.TypeMeta; metadata meta.ObjectMeta!; involvedObject ObjectReference!; reason string; message string;
 source EventSource; firstTimestamp time; lastTimestamp time; count int32; type string; eventTime microtime; series
 *EventSeries; action string; related *ObjectReference; reportingComponent string!; reportingInstance string!
EventSeries: count int32; lastObservedTime microtime
EventSource: component string; host string
ExecAction: command []string=atomic
FCVolumeSource: targetWWNs []string=atomic; lun *int32; fsType string; readOnly bool; wwids []string=atomic
FileKeySelector: =atomic volumeName string!; path string!; key string!; optional *bool
FlexPersistentVolumeSource: driver string!; fsType string; secretRef *SecretReference; readOnly bool; options {}string
FlexVolumeSource: driver string!; fsType string; secretRef *LocalObjectReference; readOnly bool; options {}string
FlockerVolumeSource: datasetName string; datasetUUID string
GCEPersistentDiskVolumeSource: pdName string!; fsType string; partition int32; readOnly bool
GRPCAction: port int32!; service *string!
GitRepoVolumeSource: repository string!; revision string; directory string
GlusterfsPersistentVolumeSource: endpoints string!; path string!; readOnly bool; endpointsNamespace *string
GlusterfsVolumeSource: endpoints string!; path string!; readOnly bool
HTTPGetAction: path string; port intorstr!; host string; scheme URIScheme; httpHeaders []HTTPHeader=atomic
HTTPHeader: name string!; value string!
HostAlias: ip string!; hostnames []string=atomic
HostIP: ip string!
HostPathVolumeSource: path string!; type *HostPathType
ISCSIPersistentVolumeSource: targetPortal string!; iqn string!; lun int32!; iscsiInterface string; fsType string;
 readOnly bool; portals []string=atomic; chapAuthDiscovery bool; chapAuthSession bool; secretRef *SecretReference;
 initiatorName *string
ISCSIVolumeSource: targetPortal string!; iqn string!; lun int32!; iscsiInterface string; fsType string; readOnly bool;
 portals []string=atomic; chapAuthDiscovery bool; chapAuthSession bool; secretRef *LocalObjectReference; initiatorName
 *string
ImageVolumeSource: reference string; pullPolicy PullPolicy
ImageVolumeStatus: imageRef string
KeyToPath: key string!; path string!; mode *int32
Lifecycle: postStart *LifecycleHandler; preStop *LifecycleHandler; stopSignal *Signal
LifecycleHandler: exec *ExecAction; httpGet *HTTPGetAction; tcpSocket *TCPSocketAction; sleep *SleepAction
LimitRange: &meta.TypeMeta; metadata meta.ObjectMeta; spec LimitRangeSpec
LimitRangeItem: type LimitType!; max ResourceList; min ResourceList; default ResourceList; defaultRequest
 ResourceList; maxLimitRequestRatio ResourceList
LimitRangeSpec: limits []LimitRangeItem!=atomic
LinuxContainerUser: uid int64!; gid int64!; supplementalGroups []int64=atomic
LoadBalancerIngress: ip string; hostname string; ipMode *LoadBalancerIPMode; ports []PortStatus=atomic
LoadBalancerStatus: ingress []LoadBalancerIngress=atomic
LocalObjectReference: =atomic name string:
LocalVolumeSource: path string!; fsType *string
ModifyVolumeStatus: targetVolumeAttributesClassName string; status PersistentVolumeClaimModifyVolumeStatus!
NFSVolumeSource: server string!; path string!; readOnly bool
Namespace: &meta.TypeMeta; metadata meta.ObjectMeta; spec NamespaceSpec; status NamespaceStatus
NamespaceCondition: type NamespaceConditionType!; status ConditionStatus!; lastTransitionTime time; reason string;
 message string
NamespaceSpec: finalizers []FinalizerName=atomic
NamespaceStatus: phase NamespacePhase; conditions []NamespaceCondition@type
Node: &meta.TypeMeta; metadata meta.ObjectMeta; spec NodeSpec; status NodeStatus
NodeAddress: type NodeAddressType!; address string!
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution *NodeSelector;
 preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm=atomic
NodeAllocatableResourceClaimStatus: resourceClaimName string!; containers []string=set; resources {ResourceName}quantity!
NodeCondition: type NodeConditionType!; status ConditionStatus!; lastHeartbeatTime time; lastTransitionTime time;
 reason string; message string
NodeConfigSource: configMap *ConfigMapNodeConfigSource
NodeConfigStatus: assigned *NodeConfigSource; active *NodeConfigSource; lastKnownGood *NodeConfigSource; error string
NodeDaemonEndpoints: kubeletEndpoint DaemonEndpoint
NodeFeatures: supplementalGroupsPolicy *bool
NodeProxyOptions: &meta.TypeMeta; path string
NodeRuntimeHandler: name string!; features *NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts *bool; userNamespaces *bool
NodeSelector: =atomic nodeSelectorTerms []NodeSelectorTerm!=atomic
NodeSelectorRequirement: key string!; operator NodeSelectorOperator!; values []string=atomic
NodeSelectorTerm: =atomic matchExpressions []NodeSelectorRequirement=atomic; matchFields
 []NodeSelectorRequirement=atomic
NodeSpec: podCIDR string; podCIDRs []string%merge=set; providerID string; unschedulable bool; taints []Taint=atomic;
 configSource *NodeConfigSource; externalID string
NodeStatus: capacity ResourceList; allocatable ResourceList; phase NodePhase; conditions []NodeCondition@type;
 addresses []NodeAddress@type; daemonEndpoints NodeDaemonEndpoints; nodeInfo NodeSystemInfo; images
 []ContainerImage=atomic; volumesInUse []UniqueVolumeName=atomic; volumesAttached []AttachedVolume=atomic; config
 *NodeConfigStatus; runtimeHandlers []NodeRuntimeHandler=atomic; features *NodeFeatures; declaredFeatures
 []string=atomic
NodeSwapStatus: capacity *int64
NodeSystemInfo: machineID string!; systemUUID string!; bootID string!; kernelVersion string!; osImage string!;
 containerRuntimeVersion string!; kubeletVersion string!; kubeProxyVersion string!; operatingSystem string!;
 architecture string!; swap *NodeSwapStatus
ObjectFieldSelector: =atomic apiVersion string; fieldPath string!
ObjectReference: =atomic kind string; namespace string; name string; uid types.UID; apiVersion string; resourceVersion
 string; fieldPath string
PersistentVolume: &meta.TypeMeta; metadata meta.ObjectMeta; spec PersistentVolumeSpec; status PersistentVolumeStatus
PersistentVolumeClaim: &meta.TypeMeta; metadata meta.ObjectMeta; spec PersistentVolumeClaimSpec; status
 PersistentVolumeClaimStatus
PersistentVolumeClaimCondition: type PersistentVolumeClaimConditionType!; status ConditionStatus!; lastProbeTime time;
 lastTransitionTime time; reason string; message string
PersistentVolumeClaimSpec: accessModes []PersistentVolumeAccessMode=atomic; selector *meta.LabelSelector; resources
 VolumeResourceRequirements; volumeName string; storageClassName *string; volumeMode *PersistentVolumeMode; dataSource
 *TypedLocalObjectReference; dataSourceRef *TypedObjectReference; volumeAttributesClassName *string
PersistentVolumeClaimStatus: phase PersistentVolumeClaimPhase; accessModes []PersistentVolumeAccessMode=atomic;
 capacity ResourceList; conditions []PersistentVolumeClaimCondition@type; allocatedResources ResourceList;
 allocatedResourceStatuses {ResourceName}ClaimResourceStatus=granular; currentVolumeAttributesClassName *string;
 modifyVolumeStatus *ModifyVolumeStatus
PersistentVolumeClaimTemplate: metadata meta.ObjectMeta; spec PersistentVolumeClaimSpec!
PersistentVolumeClaimVolumeSource: claimName string!; readOnly bool
PersistentVolumeSource: gcePersistentDisk *GCEPersistentDiskVolumeSource; awsElasticBlockStore
 *AWSElasticBlockStoreVolumeSource; hostPath *HostPathVolumeSource; glusterfs *GlusterfsPersistentVolumeSource; nfs
 *NFSVolumeSource; rbd *RBDPersistentVolumeSource; iscsi *ISCSIPersistentVolumeSource; cinder
 *CinderPersistentVolumeSource; cephfs *CephFSPersistentVolumeSource; fc *FCVolumeSource; flocker
 *FlockerVolumeSource; flexVolume *FlexPersistentVolumeSource; azureFile *AzureFilePersistentVolumeSource;
 vsphereVolume *VsphereVirtualDiskVolumeSource; quobyte *QuobyteVolumeSource; azureDisk *AzureDiskVolumeSource;
 photonPersistentDisk *PhotonPersistentDiskVolumeSource; portworxVolume *PortworxVolumeSource; scaleIO
 *ScaleIOPersistentVolumeSource; local *LocalVolumeSource; storageos *StorageOSPersistentVolumeSource; csi
 *CSIPersistentVolumeSource
PersistentVolumeSpec: capacity ResourceList; &PersistentVolumeSource; accessModes []PersistentVolumeAccessMode=atomic;
 claimRef *ObjectReference=granular; persistentVolumeReclaimPolicy PersistentVolumeReclaimPolicy; storageClassName
 string; mountOptions []string=atomic; volumeMode *PersistentVolumeMode; nodeAffinity *VolumeNodeAffinity;
 volumeAttributesClassName *string
PersistentVolumeStatus: phase PersistentVolumePhase; message string; reason string; lastPhaseTransitionTime *time
PhotonPersistentDiskVolumeSource: pdID string!; fsType string
Pod: &meta.TypeMeta; metadata meta.ObjectMeta; spec PodSpec; status PodStatus
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm=atomic;
 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm=atomic
PodAffinityTerm: labelSelector *meta.LabelSelector; namespaces []string=atomic; topologyKey string!; namespaceSelector
 *meta.LabelSelector; matchLabelKeys []string=atomic; mismatchLabelKeys []string=atomic
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm=atomic;
 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm=atomic
PodAttachOptions: &meta.TypeMeta; stdin bool; stdout bool; stderr bool; tty bool; container string
PodCertificateProjection: signerName string; keyType string; maxExpirationSeconds *int32; credentialBundlePath string;
 keyPath string; certificateChainPath string; userAnnotations {}string
PodCondition: type PodConditionType!; observedGeneration int64; status ConditionStatus!; lastProbeTime time;
 lastTransitionTime time; reason string; message string
PodDNSConfig: nameservers []string=atomic; searches []string=atomic; options []PodDNSConfigOption=atomic
PodDNSConfigOption: name string; value *string
PodExecOptions: &meta.TypeMeta; stdin bool; stdout bool; stderr bool; tty bool; container string; command
 []string!=atomic
PodExtendedResourceClaimStatus: requestMappings []ContainerExtendedResourceRequest!=atomic; resourceClaimName string!
PodIP: ip string!
PodLogOptions: &meta.TypeMeta; container string; follow bool; previous bool; sinceSeconds *int64; sinceTime *time;
 timestamps bool; tailLines *int64; limitBytes *int64; insecureSkipTLSVerifyBackend bool; stream *string
PodOS: name OSName!
PodPortForwardOptions: &meta.TypeMeta; ports []int32=atomic
PodProxyOptions: &meta.TypeMeta; path string
PodReadinessGate: conditionType PodConditionType!
PodResourceClaim: name string!; resourceClaimName *string; resourceClaimTemplateName *string
PodResourceClaimStatus: name string!; resourceClaimName *string
PodSchedulingGate: name string!
PodSchedulingGroup: podGroupName *string
PodSecurityContext: seLinuxOptions *SELinuxOptions; windowsOptions *WindowsSecurityContextOptions; runAsUser *int64;
 runAsGroup *int64; runAsNonRoot *bool; supplementalGroups []int64=atomic; supplementalGroupsPolicy
 *SupplementalGroupsPolicy; fsGroup *int64; sysctls []Sysctl=atomic; fsGroupChangePolicy *PodFSGroupChangePolicy;
 seccompProfile *SeccompProfile; appArmorProfile *AppArmorProfile; seLinuxChangePolicy *PodSELinuxChangePolicy
PodSpec: volumes []Volume@name+retainKeys; initContainers []Container@name; containers []Container!@name;
 ephemeralContainers []EphemeralContainer@name; restartPolicy RestartPolicy; terminationGracePeriodSeconds *int64;
 activeDeadlineSeconds *int64; dnsPolicy DNSPolicy; nodeSelector {}string=atomic; serviceAccountName string;
 serviceAccount string; automountServiceAccountToken *bool; nodeName string; hostNetwork bool; hostPID bool; hostIPC
 bool; shareProcessNamespace *bool; securityContext *PodSecurityContext; imagePullSecrets []LocalObjectReference@name;
 hostname string; subdomain string; affinity *Affinity; schedulerName string; tolerations []Toleration=atomic;
 hostAliases []HostAlias@ip; priorityClassName string; priority *int32; dnsConfig *PodDNSConfig; readinessGates
 []PodReadinessGate=atomic; runtimeClassName *string; enableServiceLinks *bool; preemptionPolicy *PreemptionPolicy;
 overhead ResourceList; topologySpreadConstraints []TopologySpreadConstraint@topologyKey,whenUnsatisfiable;
 setHostnameAsFQDN *bool; os *PodOS; hostUsers *bool; schedulingGates []PodSchedulingGate@name; resourceClaims
 []PodResourceClaim@name+retainKeys; resources *ResourceRequirements; hostnameOverride *string; schedulingGroup
 *PodSchedulingGroup
PodStatus: observedGeneration int64; phase PodPhase; conditions []PodCondition@type; message string; reason string;
 nominatedNodeName string; hostIP string; hostIPs []HostIP%merge(ip)=atomic; podIP string; podIPs []PodIP@ip;
 startTime *time; initContainerStatuses []ContainerStatus=atomic; containerStatuses []ContainerStatus=atomic; qosClass
 PodQOSClass; ephemeralContainerStatuses []ContainerStatus=atomic; resize PodResizeStatus; resourceClaimStatuses
 []PodResourceClaimStatus@name+retainKeys; extendedResourceClaimStatus *PodExtendedResourceClaimStatus;
 allocatedResources ResourceList; resources *ResourceRequirements; nodeAllocatableResourceClaimStatuses
 []NodeAllocatableResourceClaimStatus=atomic
PodStatusResult: &meta.TypeMeta; metadata meta.ObjectMeta; status PodStatus
PodTemplate: &meta.TypeMeta; metadata meta.ObjectMeta; template PodTemplateSpec
PodTemplateSpec: metadata meta.ObjectMeta; spec PodSpec
PortStatus: port int32!; protocol Protocol!; error *string
PortworxVolumeSource: volumeID string!; fsType string; readOnly bool
PreferredSchedulingTerm: weight int32!; preference NodeSelectorTerm!
Probe: &ProbeHandler; initialDelaySeconds int32; timeoutSeconds int32; periodSeconds int32; successThreshold int32;
 failureThreshold int32; terminationGracePeriodSeconds *int64
ProbeHandler: exec *ExecAction; httpGet *HTTPGetAction; tcpSocket *TCPSocketAction; grpc *GRPCAction
ProjectedVolumeSource: sources []VolumeProjection!=atomic; defaultMode *int32
QuobyteVolumeSource: registry string!; volume string!; readOnly bool; user string; group string; tenant string
RBDPersistentVolumeSource: monitors []string!=atomic; image string!; fsType string; pool string; user string; keyring
 string; secretRef *SecretReference; readOnly bool
RBDVolumeSource: monitors []string!=atomic; image string!; fsType string; pool string; user string; keyring string;
 secretRef *LocalObjectReference; readOnly bool
RangeAllocation: &meta.TypeMeta; metadata meta.ObjectMeta; range string!; data bytes!
ReplicationController: &meta.TypeMeta; metadata meta.ObjectMeta; spec ReplicationControllerSpec; status
 ReplicationControllerStatus
ReplicationControllerCondition: type ReplicationControllerConditionType!; status ConditionStatus!; lastTransitionTime
 time; reason string; message string
ReplicationControllerSpec: replicas *int32; minReadySeconds int32; selector {}string=atomic; template *PodTemplateSpec
ReplicationControllerStatus: replicas int32!; fullyLabeledReplicas int32; readyReplicas int32; availableReplicas
 int32; observedGeneration int64; conditions []ReplicationControllerCondition@type
ResourceClaim: name string!; request string
ResourceFieldSelector: =atomic containerName string; resource string!; divisor quantity
ResourceHealth: resourceID ResourceID!; health ResourceHealthStatus; message *string
ResourceQuota: &meta.TypeMeta; metadata meta.ObjectMeta; spec ResourceQuotaSpec; status ResourceQuotaStatus
ResourceQuotaSpec: hard ResourceList; scopes []ResourceQuotaScope=atomic; scopeSelector *ScopeSelector
ResourceQuotaStatus: hard ResourceList; used ResourceList
ResourceRequirements: limits ResourceList; requests ResourceList; claims []ResourceClaim=map(name)
ResourceStatus: name ResourceName!; resources []ResourceHealth=map(resourceID)
SELinuxOptions: user string; role string; type string; level string
ScaleIOPersistentVolumeSource: gateway string!; system string!; secretRef *SecretReference!; sslEnabled bool;
 protectionDomain string; storagePool string; storageMode string; volumeName string; fsType string; readOnly bool
ScaleIOVolumeSource: gateway string!; system string!; secretRef *LocalObjectReference!; sslEnabled bool;
 protectionDomain string; storagePool string; storageMode string; volumeName string; fsType string; readOnly bool
ScopeSelector: =atomic matchExpressions []ScopedResourceSelectorRequirement=atomic
ScopedResourceSelectorRequirement: scopeName ResourceQuotaScope!; operator ScopeSelectorOperator!; values
 []string=atomic
SeccompProfile: type SeccompProfileType!; localhostProfile *string
Secret: &meta.TypeMeta; metadata meta.ObjectMeta; immutable *bool; data {}bytes; stringData {}string; type SecretType
SecretEnvSource: &LocalObjectReference; optional *bool
SecretKeySelector: =atomic &LocalObjectReference; key string!; optional *bool
SecretProjection: &LocalObjectReference; items []KeyToPath=atomic; optional *bool
SecretReference: =atomic name string; namespace string
SecretVolumeSource: secretName string; items []KeyToPath=atomic; defaultMode *int32; optional *bool
SecurityContext: capabilities *Capabilities; privileged *bool; seLinuxOptions *SELinuxOptions; windowsOptions
 *WindowsSecurityContextOptions; runAsUser *int64; runAsGroup *int64; runAsNonRoot *bool; readOnlyRootFilesystem
 *bool; allowPrivilegeEscalation *bool; procMount *ProcMountType; seccompProfile *SeccompProfile; appArmorProfile
 *AppArmorProfile
SerializedReference: &meta.TypeMeta; reference ObjectReference
Service: &meta.TypeMeta; metadata meta.ObjectMeta; spec ServiceSpec; status ServiceStatus
ServiceAccount: &meta.TypeMeta; metadata meta.ObjectMeta; secrets []ObjectReference@name; imagePullSecrets
 []LocalObjectReference=atomic; automountServiceAccountToken *bool
ServiceAccountTokenProjection: audience string; expirationSeconds *int64; path string!
ServicePort: name string; protocol Protocol:TCP; appProtocol *string; port int32!; targetPort intorstr; nodePort int32
ServiceProxyOptions: &meta.TypeMeta; path string
ServiceSpec: ports []ServicePort@port,protocol; selector {}string=atomic; clusterIP string; clusterIPs
 []string=atomic; type ServiceType; externalIPs []string=atomic; sessionAffinity ServiceAffinity; loadBalancerIP
 string; loadBalancerSourceRanges []string=atomic; externalName string; externalTrafficPolicy
 ServiceExternalTrafficPolicy; healthCheckNodePort int32; publishNotReadyAddresses bool; sessionAffinityConfig
 *SessionAffinityConfig; ipFamilies []IPFamily=atomic; ipFamilyPolicy *IPFamilyPolicy; allocateLoadBalancerNodePorts
 *bool; loadBalancerClass *string; internalTrafficPolicy *ServiceInternalTrafficPolicy; trafficDistribution *string
ServiceStatus: loadBalancer LoadBalancerStatus; conditions []meta.Condition@type
SessionAffinityConfig: clientIP *ClientIPConfig
SleepAction: seconds int64!
StorageOSPersistentVolumeSource: volumeName string; volumeNamespace string; fsType string; readOnly bool; secretRef
 *ObjectReference
StorageOSVolumeSource: volumeName string; volumeNamespace string; fsType string; readOnly bool; secretRef
 *LocalObjectReference
Sysctl: name string!; value string!
TCPSocketAction: port intorstr!; host string
Taint: key string!; value string; effect TaintEffect!; timeAdded *time
Toleration: key string; operator TolerationOperator; value string; effect TaintEffect; tolerationSeconds *int64
TopologySelectorLabelRequirement: key string!; values []string!=atomic
TopologySelectorTerm: =atomic matchLabelExpressions []TopologySelectorLabelRequirement=atomic
TopologySpreadConstraint: maxSkew int32!; topologyKey string!; whenUnsatisfiable UnsatisfiableConstraintAction!;
 labelSelector *meta.LabelSelector; minDomains *int32; nodeAffinityPolicy *NodeInclusionPolicy; nodeTaintsPolicy
 *NodeInclusionPolicy; matchLabelKeys []string=atomic
TypedLocalObjectReference: =atomic apiGroup *string!; kind string!; name string!
TypedObjectReference: apiGroup *string!; kind string!; name string!; namespace *string
Volume: name string!; &VolumeSource
VolumeDevice: name string!; devicePath string!
VolumeMount: name string!; readOnly bool; recursiveReadOnly *RecursiveReadOnlyMode; mountPath string!; subPath string;
 mountPropagation *MountPropagationMode; subPathExpr string
VolumeMountStatus: name string!; mountPath string!; readOnly bool; recursiveReadOnly *RecursiveReadOnlyMode;
 volumeStatus *VolumeStatus
VolumeNodeAffinity: required *NodeSelector
VolumeProjection: secret *SecretProjection; downwardAPI *DownwardAPIProjection; configMap *ConfigMapProjection;
 serviceAccountToken *ServiceAccountTokenProjection; clusterTrustBundle *ClusterTrustBundleProjection; podCertificate
 *PodCertificateProjection
VolumeResourceRequirements: limits ResourceList; requests ResourceList
VolumeSource: hostPath *HostPathVolumeSource; emptyDir *EmptyDirVolumeSource; gcePersistentDisk
 *GCEPersistentDiskVolumeSource; awsElasticBlockStore *AWSElasticBlockStoreVolumeSource; gitRepo *GitRepoVolumeSource;
 secret *SecretVolumeSource; nfs *NFSVolumeSource; iscsi *ISCSIVolumeSource; glusterfs *GlusterfsVolumeSource;
 persistentVolumeClaim *PersistentVolumeClaimVolumeSource; rbd *RBDVolumeSource; flexVolume *FlexVolumeSource; cinder
 *CinderVolumeSource; cephfs *CephFSVolumeSource; flocker *FlockerVolumeSource; downwardAPI *DownwardAPIVolumeSource;
 fc *FCVolumeSource; azureFile *AzureFileVolumeSource; configMap *ConfigMapVolumeSource; vsphereVolume
 *VsphereVirtualDiskVolumeSource; quobyte *QuobyteVolumeSource; azureDisk *AzureDiskVolumeSource; photonPersistentDisk
 *PhotonPersistentDiskVolumeSource; projected *ProjectedVolumeSource; portworxVolume *PortworxVolumeSource; scaleIO
 *ScaleIOVolumeSource; storageos *StorageOSVolumeSource; csi *CSIVolumeSource; ephemeral *EphemeralVolumeSource; image
 *ImageVolumeSource
VolumeStatus: image *ImageVolumeStatus
VsphereVirtualDiskVolumeSource: volumePath string!; fsType string; storagePolicyName string; storagePolicyID string
WeightedPodAffinityTerm: weight int32!; podAffinityTerm PodAffinityTerm!
WindowsSecurityContextOptions: gmsaCredentialSpecName *string; gmsaCredentialSpec *string; runAsUserName *string;
 hostProcess *bool
";
