/**
 * Feature gates of the other components of Kubernetes, 1.29 to 1.38: accepted, without effect on a
 * service proxy. Clusters hand one list of gates to every component. Those of 1.38 are what its
 * sources register so far, and what its documentation and enhancement proposals name.
 */

/**
 * Gates by the release that introduced them, each with the last release that knew it, if it was
 * removed; 1.29 also has those that are older.
 */
const introduced: Readonly<Record<string, string>> = {
  '1.29': `
AdmissionWebhookMatchConditions:1.32 AggregatedDiscoveryEndpoint:1.32
AllowServiceLBStatusOnNonLB:1.34 AnyVolumeDataSource:1.36 APIListChunking:1.32
APIPriorityAndFairness:1.30 APIResponseCompression APISelfSubjectReview:1.29 APIServerIdentity
APIServerTracing:1.36 AppArmor:1.32 AtomicFIFO ClientsAllowCARotation ClientsAllowCBOR
ClientsPreferCBOR CloudControllerManagerWebhook CloudDualStackNodeIPs:1.31 ClusterTrustBundle
ClusterTrustBundleProjection ComponentSLIs:1.34 ConsistentHTTPGetHandlers:1.30
ConsistentListFromCache:1.36 ContainerCheckpoint CPUCFSQuotaPeriod CPUManager:1.32
CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions
CRDValidationRatcheting:1.37 CronJobsScheduledAnnotation:1.34 CrossNamespaceVolumeDataSource
CSIMigrationAzureFile:1.29 CSIMigrationPortworx:1.35 CSIMigrationRBD:1.30 CSINodeExpandSecret:1.30
CSIVolumeHealth CustomCPUCFSQuotaPeriod CustomResourceValidationExpressions:1.30
DefaultHostNetworkHostPortsInPodTemplates:1.30 DevicePluginCDIDevices:1.33
DisableCloudProviders:1.32 DisableKubeletCloudCredentialProviders:1.32 DisableNodeKubeProxyVersion
DRAControlPlaneController:1.31 DynamicResourceAllocation:1.37 EfficientWatchResumption:1.32
ElasticIndexedJob:1.33 EventedPLEG ExecProbeTimeout ExpandedDNSConfig:1.29
ExperimentalHostUserNamespaceDefaulting:1.29 GracefulNodeShutdown
GracefulNodeShutdownBasedOnPodPriority HonorPVReclaimPolicy HPAContainerMetrics:1.31 HPAScaleToZero
ImageMaximumGCAge InOrderInformers InOrderInformersBatchProcess InPlacePodVerticalScaling
InTreePluginAWSUnregister:1.30 InTreePluginAzureDiskUnregister:1.30
InTreePluginAzureFileUnregister:1.30 InTreePluginGCEUnregister:1.30
InTreePluginOpenStackUnregister:1.30 InTreePluginPortworxUnregister:1.35
InTreePluginRBDUnregister:1.30 InTreePluginvSphereUnregister:1.30 IPTablesOwnershipCleanup:1.29
JobBackoffLimitPerIndex:1.36 JobPodFailurePolicy:1.32 JobPodReplacementPolicy:1.36 JobReadyPods:1.30
KMSv1 KMSv2:1.31 KMSv2KDF:1.31 KubeletCgroupDriverFromCRI KubeletInUserNamespace
KubeletPodResources:1.29 KubeletPodResourcesDynamicResources KubeletPodResourcesGet
KubeletPodResourcesGetAllocatable:1.29 KubeletSeparateDiskGC KubeletTracing:1.37
KubeProxyDrainingTerminatingNodes:1.32 LegacyServiceAccountTokenCleanUp:1.31
LegacyServiceAccountTokenTracking:1.29 LoadBalancerIPMode:1.34
LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown:1.36
MatchLabelKeysInPodAffinity:1.37 MatchLabelKeysInPodTopologySpread MaxUnavailableStatefulSet
MemoryManager:1.35 MemoryQoS MinDomainsInPodTopologySpread:1.31 MinimizeIPTablesRestore:1.29
NewVolumeManagerReconstruction:1.31 NodeInclusionPolicyInPodTopologySpread NodeLogQuery
NodeOutOfServiceVolumeDetach:1.31 NodeSwap OpenAPIEnums PDBUnhealthyPodEvictionPolicy:1.32
PersistentVolumeLastPhaseTransitionTime:1.32 PodAndContainerStatsFromCRI PodDeletionCost
PodDisruptionConditions:1.33 PodHostIPs:1.31 PodIndexLabel:1.34 PodLifecycleSleepAction:1.36
PodReadyToStartContainersCondition PodSchedulingReadiness:1.37 ProcMountType
ProxyTerminatingEndpoints:1.29 QOSReserved ReadWriteOncePod:1.30 RecoverVolumeExpansionFailure
RemainingItemCount:1.32 RemoveSelfLink:1.29 RotateKubeletServerCertificate RuntimeClassInImageCriAPI
RuntimeClassInImageCriApi SchedulerQueueingHints:1.36 SecurityContextDeny:1.29
SELinuxMountReadWriteOncePod SeparateCacheWatchRPC SeparateTaintEvictionController:1.37
ServerSideApply:1.31 ServerSideFieldValidation:1.31 ServiceAccountTokenJTI
ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenPodNodeInfo:1.37 ServiceNodePortStaticSubrange:1.30 SidecarContainers:1.36
SizeMemoryBackedVolumes:1.34 SkipReadOnlyValidationGCE:1.30 StableLoadBalancerNodeSet:1.31
StatefulSetAutoDeletePVC:1.34 StatefulSetSemanticRevisionComparison StatefulSetStartOrdinal:1.33
StorageVersionAPI StorageVersionHash StructuredAuthenticationConfiguration:1.36
StructuredAuthorizationConfiguration:1.35 TopologyAwareHints:1.35 TopologyManagerPolicyAlphaOptions
TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests
UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
UserNamespacesPodSecurityStandards:1.34 UserNamespacesSupport ValidatingAdmissionPolicy:1.31
VolumeAttributesClass VolumeCapacityPriority:1.32 WatchBookmark:1.32
WatchFromStorageWithoutResourceVersion:1.35 WatchList WindowsHostNetwork:1.37
ZeroLimitedNominalConcurrencyShares:1.31
`,
  '1.30': `
APIServingWithRoutine AppArmorFields:1.32 CustomResourceFieldSelectors:1.37 InformerResourceVersion
JobManagedBy:1.37 JobSuccessPolicy:1.36 MutatingAdmissionPolicy PortForwardWebsockets
RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation RetryGenerateName:1.36 SELinuxMount
ServiceTrafficDistribution:1.35 StorageNamespaceIndex StorageVersionMigrator
StrictCostEnforcementForVAP:1.34 StrictCostEnforcementForWebhooks:1.34 WatchListClient
`,
  '1.31': `
AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
AnonymousAuthConfigurableEndpoints:1.36 AuthorizeNodeWithSelectors:1.36 AuthorizeWithSelectors:1.36
ConcurrentWatchObjectDecode CoordinatedLeaderElection DisableAllocatorDualWrite:1.37 ImageVolume
ReloadKubeletServerCertificateFile ResilientWatchCacheInitialization:1.36 ResourceHealthStatus
SupplementalGroupsPolicy WatchCacheInitializationPostStartHook
`,
  '1.32': `
AllowOverwriteTerminationGracePeriodSeconds AllowUnsafeMalformedObjectDeletion BtreeWatchCache:1.36
CBORServingAndStorage DRAAdminAccess DRAResourceClaimDeviceStatus ExternalServiceAccountTokenSigner
InPlacePodVerticalScalingAllocatedStatus InPlacePodVerticalScalingExclusiveCPUs
KubeletCrashLoopBackOffMax KubeletFineGrainedAuthz KubeletRegistrationGetOnExistsOnly
PodLevelResources PodLifecycleSleepActionAllowZero:1.36 PodLogsQuerySplitStreams
PreferAlignCpusByUncoreCache RelaxedDNSSearchValidation:1.36 RemoteRequestHeaderUID
SchedulerAsyncPreemption SELinuxChangePolicy ServiceAccountNodeAudienceRestriction SystemdWatchdog
WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
`,
  '1.33': `
AggregatedDiscoveryRemoveBetaType:1.37 AllowParsingUserUIDFromCertAuth ContainerStopSignals
DeclarativeValidation DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas
DisableCPUQuotaWithExclusiveCPUs DRADeviceTaints DRAPartitionableDevices DRAPrioritizedList
GitRepoVolumeDriver HPAConfigurableTolerance KubeletEnsureSecretPulledImages KubeletPSI
KubeletServiceAccountTokenForCredentialProviders LegacySidecarContainers:1.33 ListFromCacheSnapshot
MutableCSINodeAllocatableCount OrderedNamespaceDeletion:1.36 PodObservedGenerationTracking
PodTopologyLabelsAdmission ReduceDefaultCrashLoopBackOffDecay SchedulerPopFromBackoffQ
StorageCapacityScoring StreamingCollectionEncodingToJSON:1.36
StreamingCollectionEncodingToProtobuf:1.36 StrictIPCIDRValidation
`,
  '1.34': `
ClearingNominatedNodeNameAfterBinding ContainerRestartRules DetectCacheInconsistency
DRAConsumableCapacity DRADeviceBindingConditions DRAExtendedResource DRASchedulerFilterTimeout
EnvFiles HostnameOverride InPlacePodVerticalScalingExclusiveMemory
KubeletPodResourcesListUseActivePods MatchLabelKeysInPodTopologySpreadSelectorMerge
NominatedNodeNameForExpectation PodCertificateRequest PreventStaticPodAPIReferences:1.36
ProbeHostPodSecurityStandards:1.34 RelaxedServiceNameValidation SchedulerAsyncAPICalls
SizeBasedListCostEstimate StructuredAuthenticationConfigurationEgressSelector
TokenRequestServiceAccountUIDValidation
`,
  '1.35': `
AuthorizePodWebsocketUpgradeCreatePermission ChangeContainerStatusOnKubeletRestart
CloudControllerManagerWatchBasedRoutesReconciliation ConstrainedImpersonation
CRDObservedGenerationTracking CSIServiceAccountTokenSecrets DRADeviceTaintRules GangScheduling:1.36
GenericWorkload InPlacePodLevelResourcesVerticalScaling MutablePodResourcesForSuspendedJobs
MutablePVNodeAffinity MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
OpportunisticBatching RestartAllContainersOnContainerExits
StructuredAuthenticationConfigurationJWKSMetrics TaintTolerationComparisonOperators
UserNamespacesHostNetworkSupport VolumeLimitScaling
`,
  '1.36': `
ClientsAllowTLSCacheGC ControllerManagerReleaseLeaderElectionLockOnExit CRIListStreaming
DeclarativeValidationBeta DRAListTypeAttributes DRANodeAllocatableResources
DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DRAWorkloadResourceClaims
ExtendWebSocketsToKubelet ImageVolumeWithDigest InPlacePodVerticalScalingInitContainers
ManifestBasedAdmissionControlConfig PersistentVolumeClaimUnusedSinceTime PLEGOnDemandRelist
PodLevelResourceManagers PodsAPI ReloadKubeletClientCAFile ResourceHealthStatusMessage
ServiceCIDRStatusFieldWiping ShardedListAndWatch StaleControllerConsistencyDaemonSet
StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
StaleControllerConsistencyStatefulSet TopologyAwareWorkloadScheduling WorkloadAwarePreemption:1.36
WorkloadWithJob
`,
  '1.37': `
APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup
ConsistentListFromCacheSkipTimeoutFallback DefaultPodSysctls DRADerivedAttributes
DRADeviceCompatibilityGroups DRAFractionalCapacityRange DRAOptionalNodeOperations
DRAPartitionableDevicesType EmptyDirVolumeMode EtcdRangeStream EvictionRequestAPI
ExcludeAdmissionWebhookVirtualResources GRPCContainerProbeTLS H2CContainerProbe HPAGeneration
HPAOptimizedSelectorStore HugepageAwareEviction InPlacePodVerticalScalingMemoryBackedVolumes
InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath
KubeletAllocatedPodsEndpoint NodeControllerLeaseCircuitBreaker NodeLifecycleConditions
PodGroupPreemptionPolicy PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass
SchedulerPreQueueingHints StaleControllerConsistencyHPA StatefulSetRecreateStrategy
VolumeBindMountOptions WatchListCompression WebhookRoundTripLoadBalancing
`,
  '1.38': `
CertificateSigningRequestMLDSA CgroupOptions CloudNodeAdditionalLabelsReconciliation
CloudProviderNodeOwnership ClusterResourceClaimTemplates ConditionalAuthorization ContainerUlimits
DownwardAPIAssignedResources DRAOptionalNodePreparation DRASharedConsumableCapacity ExecEnvVar
ExecRequestID KubeletCertCNValidation ManagedFieldsOptOut ManagedFieldsOptOutClient
MonitorInformerStaleness NodeSystemPartition PerPodPIDLimit PodCertificateMLDSA PodFailurePolicyName
PodInfoAPI PodLevelCheckpointRestore PodLevelResourcesFixUpdateDefaulting
SchedulerPreemptionForPodResize SidecarsRestartableDuringPodTermination StaleControllerConsistency
VolumeSnapshotTopology WatchCacheShutdownBookmark WatchCacheStallResume
`,
};

/** Gates that were removed before 1.29 and are still in files, with their last release. */
const former = `
ExperimentalCriticalPodAnnotation:1.16 SupportIPVSProxyMode:1.20 ServiceLoadBalancerFinalizer:1.20
SCTPSupport:1.22 ServiceTopology:1.22 EndpointSlice:1.24 EndpointSliceNodeName:1.24
EndpointSliceProxying:1.24 IPv6DualStack:1.24 DynamicKubeletConfig:1.25
ServiceLBNodePortControl:1.25 ServiceLoadBalancerClass:1.25 EndpointSliceTerminatingCondition:1.27
MixedProtocolLBService:1.27 ServiceInternalTrafficPolicy:1.27 ServiceIPStaticSubrange:1.27
`;

/** The releases that know a gate, both included; no `last`: the newest release still does. */
interface GateReleases {
  readonly first: string;
  readonly last?: string;
}

function lastReleases(gates: string): [name: string, last: string | undefined][] {
  return gates
    .trim()
    .split(/\s+/)
    .map((gate) => gate.split(':') as [string, string?])
    .map(([name, last]) => [name, last]);
}

/** The gates of other components, with the releases that know them. */
export const otherGates: ReadonlyMap<string, GateReleases> = new Map(
  Object.entries(introduced).flatMap(([first, gates]) =>
    lastReleases(gates).map(([name, last]): [string, GateReleases] => [
      name,
      last === undefined ? { first } : { first, last },
    ]),
  ),
);

/** Those that were removed before 1.29, with their last release. */
export const formerGates = new Map(lastReleases(former));
