//! Reason: why a condition has its status, or why an event was written.
//!
//! Conditions and events are written with a [`Reason`], never with a string, so this table is
//! complete. `docs/reference/conditions.md` is generated from it.

reasons! {
    /// Why a condition has its status, or why an event was written.
    pub enum Reason;

    // The state of a workload.
    Serving: "PodAutoscaler/Ready, ServerlessService/Ready", "Pods answer the requests.", "";
    Idle: "PodAutoscaler/Ready", "The workload is at zero; activators hold the next request and wake it.",
        "";
    Proxying: "ServerlessService/Ready", "Activators are in the path of the requests.", "";
    Activating: "PodAutoscaler/Ready", "Pods are wanted and not ready yet.", "";
    Paused: "PodAutoscaler/Ready, PodAutoscaler/Active",
        "spec.replicas was set to 0 by another writer, and scale-to-zero is off. Requests get 503.",
        "set spec.replicas to 1 or more, or allow scale-to-zero";
    PausedByAnnotation: "PodAutoscaler/Ready, PodAutoscaler/Active, PodAutoscaler.status.reason",
        "The annotation paused keeps the workload at its size. At zero, requests get 503.",
        "remove the annotation paused (kubectl rouse resume NAMESPACE/NAME), or wait for the end of the pause";
    CannotStart: "PodAutoscaler/Ready, event on PodAutoscaler",
        "No pod can start for longer than the patience for its cause. Requests get 503 at once.",
        "see condition PodsCanStart for the pod and the cause";
    NotReady: "event on PodAutoscaler", "Condition Ready became False.",
        "the event's message repeats the reason and the fix";

    // The Active condition: Knative's table.
    PodsReady: "PodAutoscaler/Active, ServerlessService/EndpointsPopulated", "Enough pods are ready.", "";
    Queued: "PodAutoscaler/Active", "Requests wait for pods that are not ready yet.", "";
    NoTraffic: "PodAutoscaler/Active, PodAutoscaler.status.reason",
        "The workload has no traffic and is at zero, or on its way there.", "";
    TimedOut: "PodAutoscaler/Active", "Pods were not ready within progress-deadline and were given up.",
        "correct what keeps the pods from starting, or set progress-deadline to more than the slowest start";

    // Why a workload is above zero: PodAutoscaler.status.reason.
    ReceivingTraffic: "PodAutoscaler.status.reason", "There are requests.", "";
    WithinStableWindow: "PodAutoscaler.status.reason",
        "The workload is idle for less than its stable window.", "";
    RecentlyActive: "PodAutoscaler.status.reason",
        "The workload became active less than a stable window ago.", "";
    GracePeriod: "PodAutoscaler.status.reason", "The grace or retention period before zero is not over.",
        "";
    ScalingToZero: "PodAutoscaler.status.reason",
        "All conditions for zero hold; the size is being written.", "";
    ScaleToZeroDisabled: "PodAutoscaler.status.reason",
        "Scale-to-zero is off, for the workload or the cluster.",
        "set enable-scale-to-zero to \"true\" in ConfigMap config-autoscaler and annotate the HPA with \
         scale-to-zero: \"true\", or remove scale-to-zero from the workload";
    ScheduledMinimum: "PodAutoscaler.status.reason",
        "The schedule of the workload keeps its minimum at present; status.schedule has its next change.",
        "";
    AboveMinimum: "PodAutoscaler.status.reason",
        "The size is above minReplicas; the HPA scales down first.", "";
    NoDecision: "PodAutoscaler.status.reason",
        "There is no decision: the metrics-adapter does not respond, or has no data of this workload yet.",
        "if it lasts, see the logs of Deployment metrics-adapter and the condition SidecarMissing";
    NoActivator: "PodAutoscaler.status.reason",
        "No activator is ready, so no request could be held at zero.",
        "see why the pods of Deployment activator are not ready";
    ActivatorSilent: "PodAutoscaler.status.reason",
        "An activator that may carry requests does not report them. The message names it, and the time of its \
         last report.",
        "see its logs, and allow it to reach port 8080 of metrics-adapter and zero-scaler; it leaves the \
         endpoints after two minutes, while others report";
    PodsStarting: "PodAutoscaler.status.reason", "Pods are starting.", "";
    Retired: "PodAutoscaler.status.reason", "The workload is at zero and marked Unreachable.", "";
    WakeBlocked: "PodAutoscaler/Active",
        "The workload is idle, and what would come back from zero would not serve.",
        "condition Degraded has the cause and its fix";

    // What would come back from zero.
    VolumesDeleted: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The StatefulSet deletes the volumes of its pods when it is scaled down.",
        "set persistentVolumeClaimRetentionPolicy.whenScaled to Retain, or, if the data may be lost, annotate \
         the HPA or PodAutoscaler with autoscaling.rouse.dev/delete-volumes-at-zero: \"true\"";
    InferencePoolBypass: "PodAutoscaler/Degraded, event on PodAutoscaler, InferencePool",
        "An InferencePool selects the pods, so requests reach them past the Service: at zero they would fail, \
         and those to another port than the sidecar's are not counted.",
        "name the Service in the route in place of the InferencePool, or annotate the HPA or PodAutoscaler with \
         autoscaling.rouse.dev/scale-to-zero: \"false\"";
    RolloutIncomplete: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "Not all pods have the newest template, so pods that serve would not come back from zero.",
        "complete the rollout, or undo it (kubectl --namespace NAMESPACE rollout undo TARGET)";
    NewestPodNotReady: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "Pods serve, and the newest one does not start: the next one may not start either.",
        "correct what keeps the pod from starting: kubectl --namespace NAMESPACE describe pods";
    PodsRefused: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The API server refuses a new pod, so the workload could not come back from zero.",
        "correct what the message names: a ResourceQuota, a LimitRange, the level of Pod Security, or an \
         admission policy or webhook";
    WriteRefused: "PodAutoscaler/Ready, PodAutoscaler/Degraded, ServerlessService/Ready, event on HPA and \
                   PodAutoscaler",
        "The API server refuses an object that Rouse writes for the workload. It is retried, at most five \
         minutes apart.",
        "correct what the message names: a ResourceQuota, or an admission policy or webhook";

    // Whether the Service leads to activators.
    Verified: "PodAutoscaler/ActivatorInPath",
        "A probe of the Service's address was answered by an activator.", "";
    NotVerified: "PodAutoscaler/ActivatorInPath, PodAutoscaler.status.reason",
        "A probe of the Service's address did not reach an activator, so the workload stays above zero.",
        "the message has the probe's error; allow traffic from zero-scaler to the Service, and from it to \
         the activators";
    NotVerifiedYet: "PodAutoscaler/ActivatorInPath",
        "Activators are in the endpoints; no probe has been sent yet.", "";
    NotProxied: "PodAutoscaler/ActivatorInPath, ServerlessService/ActivatorEndpointsPopulated",
        "No activator is in the Service's endpoints.", "";
    Proxied: "ServerlessService/ActivatorEndpointsPopulated", "Activators are in the Service's endpoints.",
        "";
    InternalTrafficPolicyLocal: "PodAutoscaler/Degraded, PodAutoscaler/ActivatorInPath, event on PodAutoscaler",
        "internalTrafficPolicy: Local routes to endpoints of the client's node, which may have no \
         activator.",
        "set the Service's internalTrafficPolicy to Cluster";
    SessionAffinity: "PodAutoscaler/Degraded, PodAutoscaler/ActivatorInPath, event on PodAutoscaler",
        "sessionAffinity: ClientIP pins clients to pods, so no probe can show that new requests reach an \
         activator.",
        "set the Service's sessionAffinity to None, or remove its selector so that Rouse manages its \
         endpoints";
    NotReadyPublished: "PodAutoscaler/Degraded, PodAutoscaler/ActivatorInPath, event on PodAutoscaler",
        "publishNotReadyAddresses of a Service with a selector leads clients to pods that still start, past \
         the activators, so requests of a wake would fail. The workload stays above zero.",
        "set the Service's publishNotReadyAddresses to false, or remove its selector so that Rouse manages \
         its endpoints";

    // The Service.
    ServiceNotReady: "PodAutoscaler/Ready", "The ServerlessService of the workload is not Ready.",
        "the message repeats its reason and fix";
    ServiceNotReadyYet: "PodAutoscaler/Ready", "The ServerlessService was not reconciled yet.", "";
    ServiceNotFound: "ServerlessService/Ready",
        "The Service that the metric's selector names does not exist.",
        "create it, or correct the Service that the metric of the HPA or the PodAutoscaler names";
    ServiceTaken: "ServerlessService/Ready",
        "Another workload owns the Service: the reachable one, then the oldest.",
        "give each workload a Service of its own, delete one, or annotate one with reachability: \
         Unreachable";
    ServiceIsExternal: "ServerlessService/Ready", "The Service has type ExternalName and no endpoints.",
        "use type ClusterIP";
    ServiceIsHeadless: "ServerlessService/Ready", "Clients of a headless Service select pods by DNS.",
        "use a Service with a cluster IP; clusterIP cannot be changed, so delete it and create it without \
         clusterIP: None";
    ServiceHasNoPort: "ServerlessService/Ready", "The Service has no TCP port.",
        "add a TCP port with targetPort: queue-proxy";
    SelectorNotEquality: "ServerlessService/Ready",
        "The target's selector cannot be written as a Service's selector.",
        "name the pods with the annotation selector, or give the Service a selector of its own with \
         targetPort: queue-proxy";
    SidecarBypassed: "ServerlessService/Ready, PodAutoscaler/Degraded, event on PodAutoscaler",
        "A port of the Service leads past the sidecar: its requests are not counted, and refused at zero.",
        "set targetPort: queue-proxy on that port";
    TargetPortIgnored: "ServerlessService/Ready, PodAutoscaler/Degraded, event on PodAutoscaler",
        "A Service without selector leads all of its ports to the sidecar, which forwards to the app's port \
         alone: a port with another targetPort leads there, too.",
        "set targetPort to queue-proxy or to the app's port, or move the port to a Service with a selector";
    ServiceHasSelector: "ServerlessService/Ready",
        "The pods have no sidecar, and the Service selects them, so requests bypass the activators: nothing \
         counts them. The workload stays above zero.",
        "remove the selector, so that Rouse writes the endpoints, or label the pod template with \
         autoscaling.rouse.dev/inject: \"true\" and lead the port to the sidecar (targetPort: queue-proxy)";
    TargetPortNotFound: "ServerlessService/Ready",
        "The pods have no sidecar, and no container of a pod has a port of the name that a port of the \
         Service leads to.",
        "add the port to the container, or set targetPort to its number";
    PortsExhausted: "ServerlessService/Ready",
        "All activator ports are leased, or rest after a lease. The workload is served by its pods and \
         stays above zero.",
        "delete workloads or Service ports that are not needed";
    ForeignEndpoints: "ServerlessService/Ready",
        "EndpointSlices or Endpoints of the Service have another writer than Kubernetes and Rouse: their \
         requests bypass Rouse.",
        "delete the objects that the message names, and what writes them";
    PortQuotaExceeded: "ServerlessService/Ready",
        "The namespace leases as many activator ports as it may. The workload is served by its pods and \
         stays above zero.",
        "delete workloads or Service ports that are not needed, or raise --ports-per-namespace of the \
         zero-scaler";
    PrivateServiceTaken: "ServerlessService/Ready",
        "A Service that is not Rouse's has the name of the Service that selects the pods, NAME-private. \
         Rouse does not write it, so all requests pass activators and the workload stays above zero.",
        "rename that Service, or give the public one a selector with targetPort: queue-proxy";
    NoReadyBackend: "ServerlessService/Ready", "No pod and no activator is ready.",
        "see why the pods of Deployment activator are not ready";
    ActivatorsNotListening: "ServerlessService/Ready",
        "No pod is ready, and no activator listens on the leased ports yet.", "";
    NoHealthyBackends: "ServerlessService/EndpointsPopulated", "No pod is ready.", "";

    // The pods.
    SidecarMissing: "PodAutoscaler/Ready", "The pods have no sidecar, so their requests are not counted.",
        "label the pod template with autoscaling.rouse.dev/inject: \"true\" (kubectl rouse init TARGET \
         --namespace NAMESPACE --with-sidecar prints the change), install the admission policy or the webhook for the \
         sidecar, and restart the pods (kubectl --namespace NAMESPACE rollout restart TARGET); or leave the \
         pods without it: remove the label, and the annotation autoscaling.rouse.dev/sidecar";
    PodsNotSelected: "PodAutoscaler/Ready",
        "Pods of the target are ready, and the Service does not select them, so they get no requests.",
        "give the target's pod template the labels that the Service selects, or correct the selector";
    ProtocolMismatch: "PodAutoscaler/Ready",
        "A Service port's appProtocol and the pods' sidecars disagree on the protocol.",
        "annotate the pods with autoscaling.rouse.dev/protocol, or change the port's appProtocol";
    ContainerConcurrencyMismatch: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The HPA or PodAutoscaler has a container-concurrency that the pods do not have: the size follows \
         from the one, and a pod gets requests up to the other. Pods without one are limited only while \
         activators are in the path.",
        "annotate the pod template alone";
    NoWakeMismatch: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The rules of no-wake differ between the HPA or PodAutoscaler and the pods, so requests that one of \
         the two counts keep the workload above zero.",
        "annotate the pod template alone";
    AppPortTaken: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "A container of the pods declares a port on which their sidecar listens (by default 8012, 8022 and \
         9090), so one of the two does not start.",
        "annotate the pods with another port for the sidecar (sidecar-port, sidecar-admin-port or \
         sidecar-stats-port), let the app listen on another port and declare that one first (or name it in \
         the annotation app-port of the pods), or remove the label autoscaling.rouse.dev/inject: activators \
         then serve the pods without a sidecar";
    InvalidSidecarPort: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "An annotation of the pods that chooses a port of their sidecar is not a port, or two ports are the \
         same, so no pod starts.",
        "annotate the pods with sidecar-port, sidecar-admin-port and sidecar-stats-port as three different \
         ports, or remove them";
    HostNetwork: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The pods have hostNetwork: true and a sidecar, which has ports of their node: a node fits one such \
         pod.",
        "remove hostNetwork, or the label autoscaling.rouse.dev/inject: activators then serve the pods without \
         a sidecar";
    WindowsPods: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The pods are for nodes with Windows, and the sidecar runs on Linux, so no pod starts.",
        "remove the label autoscaling.rouse.dev/inject: activators then serve the pods without a sidecar";
    ImagePull: "PodAutoscaler/PodsCanStart", "An image cannot be pulled.",
        "correct the image or the pull secret";
    InvalidImage: "PodAutoscaler/PodsCanStart", "An image name is invalid, or the image may not be pulled.",
        "correct the image";
    CrashLoop: "PodAutoscaler/PodsCanStart", "A container ends soon after its start, again and again.",
        "see its logs (kubectl --namespace NAMESPACE logs POD --container CONTAINER); those of the sidecar \
         name the annotation of the pods that has an invalid value (docs/reference/pods.md)";
    ContainerConfig: "PodAutoscaler/PodsCanStart", "A container's configuration cannot be resolved.",
        "create the ConfigMap or Secret that the message names";
    ContainerStart: "PodAutoscaler/PodsCanStart", "A container cannot be created or started.",
        "see the message of the container runtime";
    Unschedulable: "PodAutoscaler/PodsCanStart", "The pods fit on no node.",
        "add nodes, lower the requests, or correct the pod's nodeSelector, affinity or tolerations; where a \
         new node takes more than five minutes, raise wake-timeout";
    NodeUnresponsive: "PodAutoscaler/PodsCanStart",
        "The node of the pods reports nothing about them, so another pod is started beside them.",
        "see why the node's kubelet does not respond; with maxReplicas 1 no other pod can start";

    PodsNotCreated: "PodAutoscaler/PodsCanStart, target", "The API server refuses the pods.",
        "correct what the message names: a ResourceQuota, a LimitRange, the level of Pod Security, a \
         ServiceAccount, or an admission webhook; the sidecar counts for each of them";

    // The scale target.
    TargetNotFound: "PodAutoscaler/Ready", "The object that scaleTargetRef names does not exist.",
        "create it, or correct scaleTargetRef";
    TargetChanged: "PodAutoscaler/Ready", "The target changed between read and write.", "";
    UnknownTargetKind: "PodAutoscaler/Ready", "The cluster has no such kind.",
        "correct scaleTargetRef, or install the definition of the kind";
    TargetNotScalable: "PodAutoscaler/Ready",
        "The kind of the target has no scale subresource: a DaemonSet or a Job, for example.",
        "name a Deployment, a StatefulSet or another kind with a scale subresource in scaleTargetRef";
    TargetUnreadable: "PodAutoscaler/Ready", "The target's /scale could not be read.",
        "the message has the error of the API server";
    TargetTaken: "PodAutoscaler/Ready", "Another workload scales the same target.", "delete one of the two";
    NoSelector: "PodAutoscaler/Ready", "The target's /scale has no status.selector.",
        "set subresources.scale.labelSelectorPath in its CustomResourceDefinition";
    ScaleNotWritten: "PodAutoscaler/Ready", "A size could not be written.",
        "the message has the error of the API server";
    MayStartAtZero: "PodAutoscaler/ScaleTargetInitialized",
        "initial-scale is 0, so no pod needs to be ready once.", "";
    PodsWereReady: "PodAutoscaler/ScaleTargetInitialized", "The initial number of pods was ready once.", "";
    PodsNotReadyYet: "PodAutoscaler/ScaleTargetInitialized",
        "The target did not have its initial number of ready pods yet.", "";

    // The HPA.
    Accepted: "PodAutoscaler/HPAAccepted", "The HPA is followed.", "";
    HPAUndecodable: "PodAutoscaler/HPAAccepted",
        "The HPA of this name does not fit the types of this version of Rouse; none of its fields is \
         applied.",
        "correct the field that the message names, or upgrade Rouse";
    HPANotFound: "PodAutoscaler/HPAAccepted", "No HPA of this name writes sizes above zero.",
        "create one, or set spec.scaler to Direct";
    NoMetric: "PodAutoscaler/HPAAccepted, event on HPA",
        "The HPA of this name has no metric of Rouse, or one has annotations of Rouse and no metric of it.",
        "use the metric concurrency, requests-per-second or desired-replicas with the selector \
         service=SERVICE, annotate the HPA with metric: none and service, or delete the PodAutoscaler or the \
         annotations of Rouse";
    MultipleMetrics: "PodAutoscaler/HPAAccepted, event on HPA",
        "The HPA has several metrics of Rouse, or one beside the annotation metric: none.",
        "keep one of concurrency, requests-per-second, desired-replicas and that annotation";
    MultipleHPAs: "PodAutoscaler/HPAAccepted, event on HPA",
        "Another HPA scales the same target, so each reverts the other's sizes.",
        "delete one of the two";
    AmbiguousSelector: "PodAutoscaler/HPAAccepted, event on HPA",
        "The HPA controller found pods of several HPAs under one selector.",
        "give the pods of each target labels of their own";
    TargetNotAverageValue: "PodAutoscaler/HPAAccepted, event on HPA",
        "The metric's target is not of type AverageValue.",
        "use type: AverageValue with averageValue";
    BadTarget: "PodAutoscaler/HPAAccepted, PodAutoscaler/Ready, event on HPA",
        "averageValue, or spec.target of a PodAutoscaler, is not a positive quantity, or not 1 for \
         desired-replicas.",
        "correct it";
    ServiceMissing: "PodAutoscaler/HPAAccepted, event on HPA",
        "The metric's selector names no Service, or with metric: none the annotation service is missing.",
        "add selector: {matchLabels: {service: SERVICE}}, or the annotation service";
    InvalidMetricSelector: "PodAutoscaler/HPAAccepted, event on HPA",
        "The selector of the metric does not select exactly one Service: metrics of Rouse have the label \
         service alone, and metrics of objects have none.",
        "set the selector to {matchLabels: {service: SERVICE}} only, or remove that of a metric of type Object";
    OnlyPercentPolicies: "PodAutoscaler/HPAAccepted, event on HPA",
        "With minReplicas: 0, Percent policies alone never leave zero.",
        "add a policy of type Pods, or use minReplicas: 1 and scale-to-zero";
    BehaviorMissing: "PodAutoscaler/HPAAccepted, event on HPA",
        "Without spec.behavior the HPA waits 5 minutes before it scales down. It is reported from 10 pods on.",
        "set behavior as in the example of getting-started.md";
    ToleranceNotZero: "PodAutoscaler/HPAAccepted, event on HPA",
        "The HPA ignores changes within its tolerance. It is reported from 10 pods on.",
        "set tolerance: \"0\" (Kubernetes 1.35 and later)";
    ScalingDisabled: "PodAutoscaler/HPAAccepted, event on HPA",
        "A direction of behavior has selectPolicy: Disabled.", "remove that selectPolicy";
    UnknownAnnotation: "PodAutoscaler/HPAAccepted, PodAutoscaler/Degraded, event on HPA and PodAutoscaler",
        "Rouse has no annotation of that name.",
        "correct its name (docs/reference/annotations.md and docs/reference/pods.md), or remove it";
    MisplacedAnnotation: "PodAutoscaler/HPAAccepted, PodAutoscaler/Degraded, event on HPA and PodAutoscaler",
        "The annotation has no effect on this object.", "move it to the object that the message names";
    TargetNotLearned: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "No number of requests is named, and none can be learned: the workload serves TCP, or its requests take \
         longer than 20 s. So it has more pods than it needs.",
        "name what one pod should carry: averageValue of the metric concurrency, or spec.target without an HPA; see \
         docs/howto/learn-target.md";
    HPASlow: "PodAutoscaler/Degraded, event on PodAutoscaler",
        "The HPA follows its metric 30 s apart or more, instead of each 15 s, so sizes above zero are late. The \
         HPA controller reads /scale of every HPA in each round, at zero as well.",
        "raise --kube-api-qps of kube-controller-manager to a tenth of the HPAs in the cluster, and from 3,000 \
         HPAs on --concurrent-horizontal-pod-autoscaler-syncs to one for each 500; or write PodAutoscalers with \
         scaler: Direct, without an HPA";
    FailedGetExternalMetric: "PodAutoscaler/Degraded, event on PodAutoscaler, HorizontalPodAutoscaler",
        "The HPA gets no external metric: of Rouse, if no condition of a PodAutoscaler reports it.",
        "see docs/troubleshooting.md, \"The HPA shows <unknown>\"; until then it keeps its size";
    FailedGetResourceMetric: "PodAutoscaler/Degraded, event on PodAutoscaler, HorizontalPodAutoscaler",
        "The HPA gets no metric of its pods' resources.",
        "let a metrics-server serve metrics.k8s.io and give the containers requests, or remove that metric; \
         until then the HPA does not scale down";
    FailedGetMetric: "PodAutoscaler/Degraded, event on PodAutoscaler, HorizontalPodAutoscaler",
        "The HPA gets no other metric, by the reason of its controller.",
        "correct the metric that the message names, or the adapter that serves it; until then the HPA does \
         not scale down";
    ForeignPodAutoscaler: "event on HPA", "A PodAutoscaler of the HPA's name has another owner.",
        "delete it, rename the HPA, or set spec.scaler: HPA in it";
    Released: "event on HPA", "The HPA has no metric of Rouse any more; its PodAutoscaler is deleted.", "";
    BadSetting: "PodAutoscaler/Degraded, PodAutoscaler/HPAAccepted, event on HPA, PodAutoscaler and ConfigMap",
        "A setting has an invalid value and is ignored; in config-autoscaler, all of its data is ignored, \
         and the last valid settings stay in force.",
        "correct the value: the message names key, value and bound, and docs/reference/annotations.md has \
         all of them";

    // Sizes and routes.
    ScaledFromZero: "event on PodAutoscaler or HPA",
        "A size above zero was written for a workload at zero.", "";
    ScaledToZero: "event on PodAutoscaler", "The workload was scaled to zero.", "";
    ScaledForPanic: "event on PodAutoscaler", "A size was written ahead of the HPA in a panic.", "";
    ScaledBesideLostNode: "event on PodAutoscaler",
        "A pod more was written, because the node of all pods does not respond.", "";
    Scaled: "event on PodAutoscaler", "A size was written for a workload without HPA.", "";
    ScaleConflict: "PodAutoscaler/Degraded, PodAutoscaler/Ready, PodAutoscaler.status.reason, event on \
                    PodAutoscaler",
        "Another writer has the size of the target too: an HPA beside a PodAutoscaler with scaler: Direct, \
         which then writes from and to zero only, the Deployment of a ReplicaSet, an operator, a \
         ScaledObject of KEDA or a Rollout of Argo. To one that reverts three writes in a row, Rouse \
         leaves the size for ten minutes.",
        "delete the object that scales the target, or the HPA or PodAutoscaler; the managed fields of the \
         target name its writer";
    SlowWake: "event on PodAutoscaler",
        "A request was held for long; the message has the parts of the time.",
        "see docs/troubleshooting.md, \"A wake is slow\"";
    RoutedToActivators: "event on PodAutoscaler", "Requests go through activators now.", "";
    RoutedToPods: "event on PodAutoscaler", "Requests go to the pods now.", "";

    // The learned target.
    TargetLearned: "event on HPA or PodAutoscaler",
        "The learned concurrency target, which is in force, changed by more than a fifth.", "";
}
