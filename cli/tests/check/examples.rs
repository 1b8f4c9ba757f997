//! The first examples that users follow have nothing to report: neither as an HPA, nor as a
//! workload.

use autoscaler::findings::hpa::{HpaAcceptance, accept};
use autoscaler::settings::AutoscalerConfig;
use fake_api::FakeApi;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::healthy::{AUTOSCALER, HPA, SERVICE, WEB, findings, put_installation, put_version};

const README: &str = include_str!("../../../README.md");
const GETTING_STARTED: &str = include_str!("../../../docs/getting-started.md");

/// The objects of the block that is saved as a file.
fn objects(page: &str, file: &str) -> Vec<Value> {
    let (_, block) = page.split_once(&format!("```yaml file={file}\n")).unwrap();
    let (text, _) = block.split_once("\n```").unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    documents.map(|document| Value::deserialize(document).unwrap()).collect()
}

/// What the commands of the README create.
fn made_by_commands() -> Vec<Value> {
    for command in
        ["create deployment web", "--port=8080", "expose deployment web", r#"{"spec": {"selector": null}}"#]
    {
        assert!(README.contains(command), "{command}");
    }
    let pod = json!({"containers": [{"name": "sample-app", "ports": [{"containerPort": 8080}]}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
    vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
    ]
}

/// As the zero-scaler does, at a size of some pods. It reports advice as a condition.
fn followed(api: &FakeApi) {
    let mut hpa = api.get(&format!("{HPA}/web")).unwrap();
    hpa["status"] = json!({"currentReplicas": 3, "desiredReplicas": 5});
    let hpa = serde_json::from_value(hpa).unwrap();
    let HpaAcceptance::Accepted(accepted) = accept(&hpa, [], &AutoscalerConfig::default(), false) else {
        panic!("the HPA is not followed")
    };
    assert_eq!(accepted.advice, [], "advice on the example");
    api.put(
        AUTOSCALER,
        json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop", "annotations": accepted.annotations},
            "spec": accepted.spec, "status": {},
        }),
    );
}

#[tokio::test]
async fn examples_of_readme_and_getting_started_have_no_finding() {
    let made = made_by_commands();
    let of_readme = [made, objects(README, "hpa.yaml")].concat();
    let started = ["web.yaml", "hpa.yaml"].map(|file| objects(GETTING_STARTED, file));
    for objects in [of_readme, started.concat()] {
        let api = FakeApi::default();
        put_version(&api, "37");
        put_installation(&api);
        for mut object in objects {
            object["metadata"]["namespace"] = json!("shop");
            let path = match object["kind"].as_str().unwrap() {
                "Deployment" => WEB.to_owned(),
                "HorizontalPodAutoscaler" => format!("{HPA}/web"),
                _ => {
                    object["spec"]["clusterIP"] = json!("10.96.0.7");
                    SERVICE.to_owned()
                }
            };
            api.put(&path, object);
        }
        followed(&api);
        assert_eq!(findings(&api).await, Vec::<Value>::new());
    }
}
