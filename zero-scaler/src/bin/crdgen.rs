//! Prints the CustomResourceDefinitions as YAML, for `deploy/crds.yaml`.

use autoscaler::api::{Metric, PodAutoscaler, ServerlessService};
use kube::CustomResourceExt;
use serde_json::Value;

fn main() -> anyhow::Result<()> {
    for crd in [PodAutoscaler::crd(), Metric::crd(), ServerlessService::crd()] {
        let mut crd = serde_json::to_value(&crd)?;
        drop_unsigned_formats(&mut crd);
        println!("---\n{}", serde_yaml_ng::to_string(&crd)?.trim_end());
    }
    Ok(())
}

/// Kubernetes warns about unsigned integer formats; the schemas also have bounds.
fn drop_unsigned_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|key, value| {
                key != "format" || !value.as_str().is_some_and(|f| f.starts_with("uint"))
            });
            fields.values_mut().for_each(drop_unsigned_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_unsigned_formats),
        _ => {}
    }
}
