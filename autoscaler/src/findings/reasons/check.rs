//! CheckReason: what `kubectl rouse check` finds that no part of Rouse in the cluster sees.

reasons! {
    /// Why `kubectl rouse check` has a finding.
    pub enum CheckReason;

    // The installation.
    OldCluster: "cluster", "The API server is older than Kubernetes 1.33, on which Rouse does not run.",
        "upgrade the cluster; see docs/howto/operate/install.md";
    NotInstalled: "object of the manifests",
        "The object does not exist, and a part of Rouse needs it.",
        "install Rouse again: kubectl apply -k deploy, or upgrade the chart";
    Terminating: "Namespace, CustomResourceDefinition",
        "The object is being deleted, and with it what it contains.",
        "when the deletion has ended, install Rouse again: kubectl apply -k deploy, or the chart";
    NamespaceTerminating: "Namespace",
        "The namespace of a workload is being deleted: no pods can be created, and its workloads are not \
         woken.",
        "if the deletion does not end, remove what its conditions name; then create the namespace again";
    NotServed: "CustomResourceDefinition", "The API server does not serve a custom resource.",
        "kubectl apply --filename deploy/crds.yaml, or install the chart";
    OutdatedDefinition: "CustomResourceDefinition",
        "A schema lacks a field of this version of Rouse, so the API server drops that field.",
        "kubectl apply --filename deploy/crds.yaml, or install the chart";
    Unavailable: "Deployment of Rouse", "None of its pods is available; the message has the cause.",
        "see kubectl --namespace NAMESPACE describe pods --selector app.kubernetes.io/name=NAME, and their \
         logs";
    PartlyUnavailable: "Deployment of Rouse",
        "Fewer pods than wanted are available, and the rollout does not proceed.",
        "see kubectl --namespace NAMESPACE describe pods --selector app.kubernetes.io/name=NAME, and their \
         logs";
    PodFailing: "Deployment of Rouse", "All wanted pods are available, and another one fails.",
        "see kubectl --namespace NAMESPACE describe pods --selector app.kubernetes.io/name=NAME, and their \
         logs";
    NoReplicas: "Deployment of Rouse", "It is scaled to 0.",
        "kubectl --namespace NAMESPACE scale deployment NAME --replicas 2";
    VersionSkew: "Deployment of Rouse", "Two parts of Rouse have different versions.",
        "give all parts the images of one version: kubectl apply -k deploy, or upgrade the chart";
    SingleNode: "Deployment of Rouse",
        "All activators run on one node of several: without that node, held requests fail.",
        "kubectl --namespace NAMESPACE rollout restart deployment NAME, which spreads them";
    RightsMissing: "Role, RoleBinding and those of the cluster",
        "A role does not grant, or a binding does not give, a right that a part of Rouse needs.",
        "kubectl apply -k deploy, or upgrade the chart; delete a binding to another role before, because \
         roleRef cannot be changed";
    ServiceDiffers: "Service of Rouse", "It does not lead to the pods of its part.",
        "kubectl apply -k deploy, or upgrade the chart";
    PolicyNotEnforced: "ValidatingAdmissionPolicyBinding", "The admission policy protects nothing.",
        "kubectl apply -k deploy, or upgrade the chart";
    TrafficBlocked: "NetworkPolicy of Rouse", "A part of Rouse cannot be reached on one of its ports.",
        "kubectl apply --filename deploy/network-policies.yaml, or allow that ingress";
    EgressBlocked: "NetworkPolicy of Rouse", "A part of Rouse cannot connect to anything.",
        "kubectl apply --filename deploy/network-policies.yaml, which allows egress of Rouse's pods";
    NoLeader: "Lease", "No replica leads, so no metric is served, or no object is written.",
        "let the pods of NAME update the Lease (their logs have the error), and set the clocks of their \
         nodes; if it remains, kubectl --namespace NAMESPACE delete lease NAME";
    ClockSkew: "Lease", "The clock of a leader's node is ahead of the API server's.",
        "synchronise the clocks of the nodes; learned targets and schedules need them";
    Uninstalling: "ConfigMap", "An uninstallation is announced, so all workloads are kept above zero.",
        "to keep Rouse, kubectl --namespace NAMESPACE annotate configmap NAME \
         autoscaling.rouse.dev/uninstall-";
    ForeignAPIService: "APIService", "A metrics API leads to another adapter.",
        "let Rouse serve custom.metrics.k8s.io (docs/howto/custom-metrics.md), or delete this APIService \
         and apply deploy/metrics-adapter.yaml if nothing else needs it";
    APIServiceUnavailable: "APIService", "The API server does not reach the metrics-adapter.",
        "start the pods of Deployment metrics-adapter, and let the API server connect to their port 10250 \
         (NetworkPolicies, firewalls)";
    InvalidCertificate: "Secret, APIService", "A certificate is absent, not valid yet, or not a certificate.",
        "delete the Secret and restart Deployment metrics-adapter, which then makes a new one; renew that of \
         another issuer there";
    CertificateExpired: "Secret, APIService",
        "A certificate has expired, so the API server rejects the metrics API.",
        "delete the Secret and restart Deployment metrics-adapter, which then makes a new one; renew that of \
         another issuer there";
    CertificateEndsSoon: "Secret, APIService", "A certificate expires within three days.",
        "delete the Secret and restart Deployment metrics-adapter, which then makes a new one; renew that of \
         another issuer there";
    NoInjection: "MutatingAdmissionPolicy, MutatingWebhookConfiguration",
        "New pods that are labelled for the sidecar get none.",
        "kubectl apply --filename deploy/queue-proxy.yaml, or install the chart with sidecar.injection; then \
         restart the pods";

    // The HPA and the target.
    NotFollowed: "HorizontalPodAutoscaler", "The HPA has a metric of Rouse and no PodAutoscaler.",
        "see the logs of Deployment zero-scaler, and kubectl describe hpa";
    NotReconciled: "PodAutoscaler", "A minute after its creation it has no status.",
        "see the logs of Deployment zero-scaler";
    FailedGetScale: "HorizontalPodAutoscaler", "It cannot read the size of its target.",
        "correct scaleTargetRef, or what rejects the target's scale: an admission webhook or policy";
    FailedUpdateScale: "HorizontalPodAutoscaler", "It cannot write the size of its target.",
        "correct scaleTargetRef, or what rejects the target's scale: an admission webhook or policy";
    AtMaximum: "HorizontalPodAutoscaler", "The load needs more pods than maxReplicas.",
        "raise maxReplicas, or the target of the metric";
    NotManaged: "Deployment",
        "It has size 0, its pods are labelled for the sidecar, and no HPA or PodAutoscaler names it.",
        "create the HPA (kubectl rouse init deployment/NAME --namespace NAMESPACE prints it), or kubectl \
         --namespace NAMESPACE scale deployment NAME --replicas 1";
    RolloutPaused: "target, Deployment of Rouse", "Its rollout is paused, so changes do not reach its pods.",
        "kubectl --namespace NAMESPACE rollout resume deployment/NAME";
    TargetFrozen: "PodAutoscaler", "The learned target does not change any more.",
        "see docs/design/learned-target.md";

    // The Service and what leads to it.
    ExternalTrafficPolicyLocal: "Service",
        "externalTrafficPolicy: Local drops requests at nodes without an activator while the workload is at \
         zero.",
        "set externalTrafficPolicy to Cluster";
    ServiceSelectsOtherPods: "Service", "Its selector does not match the pods of the workload.",
        "give the selector labels of the pod template, or correct the Service that the HPA's metric names";
    SeveralTargetsSelected: "Service", "Its selector matches the pods of two targets.",
        "give the selector a label that the pods of one of the two alone have";
    PodsNotScraped: "ServiceMonitor",
        "It selects a Service without a selector: Prometheus finds activators or nothing, and the metrics of \
         the pods end.",
        "replace it by a PodMonitor; see docs/howto/requests-at-zero.md";
    ActivatorBypassed: "Ingress, HTTPRoute, GRPCRoute",
        "It leads to another Service of the workload's pods, so its requests do not wake the workload.",
        "name the Service of the workload, which the message names";
    ServicePortNotFound: "Ingress, HTTPRoute, GRPCRoute", "It leads to a port that is not the Service's.",
        "name a port of the Service, which the message names";
    TimeoutBelowWake: "Ingress, HTTPRoute, GRPCRoute",
        "Its timeout, or the default of the program that serves it, is shorter than a wake may take: 10 s, or \
         the wake-timeout of the workload.",
        "set it to 10s or more";
    SecurityGroupPort: "Ingress, Service",
        "A load balancer sends to pods, and does not reach activators on their leased ports.",
        "let it send to nodes, or see docs/howto/front-doors/aws.md and docs/howto/front-doors/gke.md";
    MeshStrict: "PeerAuthentication",
        "It requires mTLS of the pods in an Istio mesh, and activators are not in the mesh.",
        "take the activators into the mesh (activator.mesh of the chart), or add a PeerAuthentication that \
         selects the pods, with portLevelMtls PERMISSIVE for the port of the sidecar or app; see \
         docs/howto/front-doors/istio.md";
    StatisticsBlocked: "NetworkPolicy", "The metrics-adapter cannot read the statistics of the pods.",
        "allow ingress from namespace rouse-system to the port that the message names, as the NetworkPolicy \
         in docs/reference/ports.md";
    DatagramsBlocked: "NetworkPolicy",
        "The metrics-adapter reads the statistics of the pods by HTTP, which costs more than by UDP.",
        "allow ingress from namespace rouse-system to the port that the message names, as the NetworkPolicy \
         in docs/reference/ports.md";
    RequestsBlocked: "NetworkPolicy", "Activators cannot connect to the pods, so held requests fail.",
        "allow ingress from namespace rouse-system to the port that the message names, as the NetworkPolicy \
         in docs/reference/ports.md";

    // The pods.
    SidecarUnused: "target", "The pods are labelled for the sidecar, and the workload has none.",
        "remove the label autoscaling.rouse.dev/inject, or the annotation autoscaling.rouse.dev/sidecar \
         (spec.sidecar of a PodAutoscaler)";
    SidecarOutdated: "target", "A pod has the sidecar of another version than new pods get.",
        "kubectl --namespace NAMESPACE rollout restart TARGET";
    InvalidAppPort: "target", "Annotation app-port of the pods is not a port, so the sidecar does not start.",
        "set autoscaling.rouse.dev/app-port to the number of the port on which the app listens";
    OOMKilled: "target", "A container exceeded its memory limit within the last hour.",
        "raise the container's memory limit, or lower the target so that a pod gets fewer requests; that of \
         the sidecar is memoryLimit at the top of the admission policy (sidecar.resources of the chart)";
    PodNotReady: "target", "A pod is not ready for two minutes.",
        "correct the readiness probe or the app, which must listen on the port that the message names; see \
         kubectl --namespace NAMESPACE describe pods";
    EvictionBlocked: "PodDisruptionBudget",
        "It lets no pod be evicted while the workload has its smallest size, so the drain of a node waits.",
        "set maxUnavailable: 1 in place of it: with one pod left, activators hold the requests until the \
         next one is ready";
}
