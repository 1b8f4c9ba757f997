//! System tests on a real cluster with Rouse, by subject: `make test-system`, or by hand on the
//! cluster of KUBECONFIG.
//!
//! One binary, so that all tests share one lock of the cluster (`system_tests::cluster::lock`). A
//! test says there whether it shares the cluster: one that changes nothing outside its namespace
//! does, and its bounds leave room for the load of the others. One that restarts or scales parts of
//! the installation, or measures times, has the cluster to itself.

/// A request to a workload at zero.
mod wake {
    mod held_requests;
    mod latency;
    mod without_leader;
}

/// To zero and back, for each kind of target.
mod zero {
    mod applied_from_git;
    mod changed_hands;
    mod hpa_deletion;
    mod next_pods;
    mod random_workloads;
    pub(crate) mod redis;
    mod restored;
    mod scale_to_zero;
    mod targets;
}

/// The stock HPA, and the metrics-adapter from which it gets its metric.
mod hpa {
    mod adapter_handover;
    mod adapter_leader;
    mod adapter_outage;
    mod deletion_costs;
    mod load;
    mod vectors;
}

/// To which pods requests go, and that none fails when this changes.
mod routing {
    mod activators;
    mod adopted;
    mod http2;
    mod limit_of_one;
    mod made_managed;
    mod mode_switch;
    mod pod_limits;
    mod ports;
    mod selectors;
    mod silent_activator;
}

/// Targets that Rouse learns.
mod learning {
    mod learned_target;
    mod pod_resources;
}

/// What the manifests of the installation and of the documents do, and a cluster without them.
mod installation {
    mod admission;
    mod documents;
    mod fairness;
    mod without_installation;
    mod without_mutating_policies;
}

/// What pods and users may not do.
mod security {
    mod admin_ports;
    mod aggregation;
    mod hostile_pod;
    mod metric_access;
    mod network_policies;
    mod policies;
}

/// What operators see of workloads: in Prometheus, by `kubectl rouse`, and as recorded loads.
mod observability {
    mod kubectl_rouse;
    mod prometheus;
    mod recorded_load;
    mod scrapes;
}
