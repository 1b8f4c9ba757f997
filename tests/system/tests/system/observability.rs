//! What operators see of workloads: metrics in Prometheus, and recorded loads. The tests share the
//! cluster.

mod prometheus;
mod recorded_load;
