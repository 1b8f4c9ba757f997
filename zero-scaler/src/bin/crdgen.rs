//! Prints the custom resources as YAML documents, for `deploy/`.

use autoscaler::api::{Metric, PodAutoscaler, ServerlessService};
use kube::CustomResourceExt;

fn main() -> anyhow::Result<()> {
    for crd in [PodAutoscaler::crd(), Metric::crd(), ServerlessService::crd()] {
        println!("---\n{}", serde_yaml_ng::to_string(&crd)?.trim_end());
    }
    Ok(())
}
