//! The type tables of coordination, discovery, events, networking, node, resource and storage.
//!
//! Generated from Kubernetes 1.36 by `cargo run -p xtask -- codegen`.
//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.

/// Types of `io.k8s.api.coordination.v1`.
pub(super) const COORDINATION: &str = "\
= string: CoordinatedLeaseStrategy
Lease: &meta.TypeMeta; metadata meta.ObjectMeta; spec LeaseSpec
LeaseSpec: holderIdentity *string; leaseDurationSeconds *int32; acquireTime *microtime; renewTime *microtime;
 leaseTransitions *int32; strategy *CoordinatedLeaseStrategy; preferredHolder *string
";

/// Types of `io.k8s.api.discovery.v1`.
pub(super) const DISCOVERY: &str = "\
= string: AddressType
Endpoint: addresses []string!=set; conditions EndpointConditions; hostname *string; targetRef *core.ObjectReference;
 deprecatedTopology {}string; nodeName *string; zone *string; hints *EndpointHints
EndpointConditions: ready *bool; serving *bool; terminating *bool
EndpointHints: forZones []ForZone=atomic; forNodes []ForNode=atomic
EndpointPort: =atomic name *string; protocol *core.Protocol; port *int32; appProtocol *string
EndpointSlice: &meta.TypeMeta; metadata meta.ObjectMeta; addressType AddressType!; endpoints []Endpoint!=atomic; ports
 []EndpointPort!=atomic
ForNode: name string!
ForZone: name string!
";

/// Types of `io.k8s.api.events.v1`.
pub(super) const EVENTS: &str = "\
Event: &meta.TypeMeta; metadata meta.ObjectMeta!; eventTime microtime!; series *EventSeries; reportingController
 string; reportingInstance string; action string; reason string; regarding core.ObjectReference; related
 *core.ObjectReference; note string; type string; deprecatedSource core.EventSource; deprecatedFirstTimestamp time;
 deprecatedLastTimestamp time; deprecatedCount int32
EventSeries: count int32!; lastObservedTime microtime!
";

/// Types of `io.k8s.api.networking.v1`.
pub(super) const NETWORKING: &str = "\
= string: PathType PolicyType
HTTPIngressPath: path string; pathType *PathType!; backend IngressBackend!
HTTPIngressRuleValue: paths []HTTPIngressPath!=atomic
IPAddress: &meta.TypeMeta; metadata meta.ObjectMeta; spec IPAddressSpec
IPAddressSpec: parentRef *ParentReference
IPBlock: cidr string!; except []string=atomic
Ingress: &meta.TypeMeta; metadata meta.ObjectMeta; spec IngressSpec; status IngressStatus
IngressBackend: service *IngressServiceBackend; resource *core.TypedLocalObjectReference
IngressClass: &meta.TypeMeta; metadata meta.ObjectMeta; spec IngressClassSpec
IngressClassParametersReference: apiGroup *string; kind string!; name string!; scope *string!; namespace *string
IngressClassSpec: controller string; parameters *IngressClassParametersReference
IngressLoadBalancerIngress: ip string; hostname string; ports []IngressPortStatus=atomic
IngressLoadBalancerStatus: ingress []IngressLoadBalancerIngress=atomic
IngressPortStatus: port int32!; protocol core.Protocol!; error *string
IngressRule: host string; &IngressRuleValue
IngressRuleValue: http *HTTPIngressRuleValue
IngressServiceBackend: name string!; port ServiceBackendPort
IngressSpec: ingressClassName *string; defaultBackend *IngressBackend; tls []IngressTLS=atomic; rules
 []IngressRule=atomic
IngressStatus: loadBalancer IngressLoadBalancerStatus
IngressTLS: hosts []string=atomic; secretName string
NetworkPolicy: &meta.TypeMeta; metadata meta.ObjectMeta; spec NetworkPolicySpec
NetworkPolicyEgressRule: ports []NetworkPolicyPort=atomic; to []NetworkPolicyPeer=atomic
NetworkPolicyIngressRule: ports []NetworkPolicyPort=atomic; from []NetworkPolicyPeer=atomic
NetworkPolicyPeer: podSelector *meta.LabelSelector; namespaceSelector *meta.LabelSelector; ipBlock *IPBlock
NetworkPolicyPort: protocol *core.Protocol; port *intorstr; endPort *int32
NetworkPolicySpec: podSelector meta.LabelSelector!; ingress []NetworkPolicyIngressRule=atomic; egress
 []NetworkPolicyEgressRule=atomic; policyTypes []PolicyType=atomic
ParentReference: group string; resource string; namespace string; name string
ServiceBackendPort: =atomic name string; number int32
ServiceCIDR: &meta.TypeMeta; metadata meta.ObjectMeta; spec ServiceCIDRSpec; status ServiceCIDRStatus
ServiceCIDRSpec: cidrs []string=atomic
ServiceCIDRStatus: conditions []meta.Condition@type
";

/// Types of `io.k8s.api.node.v1`.
pub(super) const NODE: &str = "\
Overhead: podFixed core.ResourceList
RuntimeClass: &meta.TypeMeta; metadata meta.ObjectMeta; handler string!; overhead *Overhead; scheduling *Scheduling
Scheduling: nodeSelector {}string=atomic; tolerations []core.Toleration=atomic
";

/// Types of `io.k8s.api.resource.v1`.
pub(super) const RESOURCE: &str = "\
= string: AllocationConfigSource DeviceAllocationMode DeviceTaintEffect DeviceTolerationOperator FullyQualifiedName
 QualifiedName
AllocatedDeviceStatus: driver string!; pool string!; device string!; shareID *string; conditions
 []meta.Condition!=map(type); data *raw; networkData *NetworkDeviceData
AllocationResult: devices DeviceAllocationResult; nodeSelector *core.NodeSelector; allocationTimestamp *time
CELDeviceSelector: expression string!
CapacityRequestPolicy: default *quantity!; validValues []quantity=atomic; validRange *CapacityRequestPolicyRange
CapacityRequestPolicyRange: min *quantity; max *quantity; step *quantity
CapacityRequirements: requests {QualifiedName}quantity
Counter: value quantity!
CounterSet: name string!; counters {}Counter
Device: name string!; attributes {QualifiedName}DeviceAttribute; capacity {QualifiedName}DeviceCapacity; consumesCounters
 []DeviceCounterConsumption=atomic; nodeName *string; nodeSelector *core.NodeSelector; allNodes *bool; taints
 []DeviceTaint=atomic; bindsToNode *bool; bindingConditions []string=atomic; bindingFailureConditions []string=atomic;
 allowMultipleAllocations *bool; nodeAllocatableResourceMappings {core.ResourceName}NodeAllocatableResourceMapping
DeviceAllocationConfiguration: source AllocationConfigSource!; requests []string=atomic; &DeviceConfiguration
DeviceAllocationResult: results []DeviceRequestAllocationResult=atomic; config []DeviceAllocationConfiguration=atomic
DeviceAttribute: int *int64; bool *bool; string *string; version *string; ints []int64=atomic; bools []bool=atomic;
 strings []string=atomic; versions []string=atomic
DeviceCapacity: value quantity!; requestPolicy *CapacityRequestPolicy
DeviceClaim: requests []DeviceRequest!=atomic; constraints []DeviceConstraint=atomic; config
 []DeviceClaimConfiguration=atomic
DeviceClaimConfiguration: requests []string=atomic; &DeviceConfiguration
DeviceClass: &meta.TypeMeta; metadata meta.ObjectMeta; spec DeviceClassSpec!
DeviceClassConfiguration: &DeviceConfiguration
DeviceClassSpec: selectors []DeviceSelector=atomic; config []DeviceClassConfiguration=atomic; extendedResourceName
 *string
DeviceConfiguration: opaque *OpaqueDeviceConfiguration
DeviceConstraint: requests []string=atomic; matchAttribute *FullyQualifiedName; distinctAttribute *FullyQualifiedName
DeviceCounterConsumption: counterSet string!; counters {}Counter
DeviceRequest: name string!; exactly *ExactDeviceRequest; firstAvailable []DeviceSubRequest=atomic
DeviceRequestAllocationResult: request string!; driver string!; pool string!; device string!; adminAccess *bool;
 tolerations []DeviceToleration=atomic; bindingConditions []string=atomic; bindingFailureConditions []string=atomic;
 shareID *types.UID; consumedCapacity {QualifiedName}quantity
DeviceSelector: cel *CELDeviceSelector
DeviceSubRequest: name string!; deviceClassName string!; selectors []DeviceSelector=atomic; allocationMode
 DeviceAllocationMode; count int64; tolerations []DeviceToleration=atomic; capacity *CapacityRequirements
DeviceTaint: key string!; value string; effect DeviceTaintEffect!; timeAdded *time
DeviceToleration: key string; operator DeviceTolerationOperator; value string; effect DeviceTaintEffect;
 tolerationSeconds *int64
ExactDeviceRequest: deviceClassName string!; selectors []DeviceSelector=atomic; allocationMode DeviceAllocationMode;
 count int64; adminAccess *bool; tolerations []DeviceToleration=atomic; capacity *CapacityRequirements
NetworkDeviceData: interfaceName string; ips []string=atomic; hardwareAddress string
NodeAllocatableResourceMapping: capacityKey *QualifiedName; allocationMultiplier *quantity
OpaqueDeviceConfiguration: driver string!; parameters raw!
ResourceClaim: &meta.TypeMeta; metadata meta.ObjectMeta; spec ResourceClaimSpec!; status ResourceClaimStatus
ResourceClaimConsumerReference: apiGroup string; resource string!; name string!; uid types.UID!
ResourceClaimSpec: devices DeviceClaim!
ResourceClaimStatus: allocation *AllocationResult; reservedFor []ResourceClaimConsumerReference@uid; devices
 []AllocatedDeviceStatus=map(driver,device,pool,shareID)
ResourceClaimTemplate: &meta.TypeMeta; metadata meta.ObjectMeta; spec ResourceClaimTemplateSpec!
ResourceClaimTemplateSpec: metadata meta.ObjectMeta; spec ResourceClaimSpec!
ResourcePool: name string!; generation int64!; resourceSliceCount int64!
ResourceSlice: &meta.TypeMeta; metadata meta.ObjectMeta; spec ResourceSliceSpec!
ResourceSliceSpec: driver string!; pool ResourcePool!; nodeName *string; nodeSelector *core.NodeSelector; allNodes
 *bool; devices []Device=atomic; perDeviceNodeSelection *bool; sharedCounters []CounterSet=atomic
";

/// Types of `io.k8s.api.storage.v1`.
pub(super) const STORAGE: &str = "\
= string: FSGroupPolicy VolumeBindingMode VolumeLifecycleMode
CSIDriver: &meta.TypeMeta; metadata meta.ObjectMeta; spec CSIDriverSpec!
CSIDriverSpec: attachRequired *bool; podInfoOnMount *bool; volumeLifecycleModes []VolumeLifecycleMode=set;
 storageCapacity *bool; fsGroupPolicy *FSGroupPolicy; tokenRequests []TokenRequest=atomic; requiresRepublish *bool;
 seLinuxMount *bool; nodeAllocatableUpdatePeriodSeconds *int64; serviceAccountTokenInSecrets *bool;
 preventPodSchedulingIfMissing *bool
CSINode: &meta.TypeMeta; metadata meta.ObjectMeta; spec CSINodeSpec!
CSINodeDriver: name string!; nodeID string!; topologyKeys []string!=atomic; allocatable *VolumeNodeResources
CSINodeSpec: drivers []CSINodeDriver!@name
CSIStorageCapacity: &meta.TypeMeta; metadata meta.ObjectMeta; nodeTopology *meta.LabelSelector; storageClassName
 string!; capacity *quantity; maximumVolumeSize *quantity
StorageClass: &meta.TypeMeta; metadata meta.ObjectMeta; provisioner string!; parameters {}string; reclaimPolicy
 *core.PersistentVolumeReclaimPolicy; mountOptions []string=atomic; allowVolumeExpansion *bool; volumeBindingMode
 *VolumeBindingMode; allowedTopologies []core.TopologySelectorTerm=atomic
TokenRequest: audience string!; expirationSeconds *int64
VolumeAttachment: &meta.TypeMeta; metadata meta.ObjectMeta; spec VolumeAttachmentSpec!; status VolumeAttachmentStatus
VolumeAttachmentSource: persistentVolumeName *string; inlineVolumeSpec *core.PersistentVolumeSpec
VolumeAttachmentSpec: attacher string!; source VolumeAttachmentSource!; nodeName string!
VolumeAttachmentStatus: attached bool!; attachmentMetadata {}string; attachError *VolumeError; detachError
 *VolumeError
VolumeAttributesClass: &meta.TypeMeta; metadata meta.ObjectMeta; driverName string!; parameters {}string
VolumeError: time time; message string; errorCode *int32
VolumeNodeResources: count *int32
";
