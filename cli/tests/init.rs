//! `init` on an API in memory: the printed YAML has the changes, and nothing is written.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use clap::Parser;
use cli::args::Cli;
use fake_api::FakeApi;
use serde::Deserialize;
use serde_json::{Value, json};
use support::run;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web-cpu";

/// A bare Deployment and its Service.
fn shop() -> FakeApi {
    let api = FakeApi::default();
    api.put(
        DEPLOYMENT,
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "annotations": {"deployment.kubernetes.io/revision": "3", "team": "a"},
            },
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{
                        "name": "app", "ports": [{"name": "web", "containerPort": 8080}],
                        "resources": {"requests": {"cpu": "250m"}},
                    }]},
                },
            },
            "status": {"replicas": 2},
        }),
    );
    put_service(&api, "web", json!([{"name": "http", "port": 80, "targetPort": 8080}]));
    api
}

fn put_service(api: &FakeApi, name: &str, ports: Value) {
    api.put(
        &format!("/api/v1/namespaces/shop/services/{name}"),
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.7", "selector": {"app": "web"}, "ports": ports},
        }),
    );
}

/// The objects in the printed YAML.
async fn objects(api: &FakeApi, args: &[&str]) -> Vec<Value> {
    let text = run(api, &[&["init", "deploy/web"], args].concat()).await.unwrap().text;
    assert_eq!(api.writes(), [""; 0], "init writes nothing");
    let objects =
        serde_yaml_ng::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    objects.filter(|object| !object.is_null()).collect()
}

#[tokio::test]
async fn bare_deployment_gets_sidecar_service_port_and_hpa_if_wanted() {
    let objects = objects(&shop(), &["--with-sidecar"]).await;
    let [deployment, service, hpa] = objects.as_slice() else { panic!("{objects:#?}") };
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["autoscaling.rouse.dev/inject"], "true");
    assert_eq!(
        deployment["metadata"],
        json!({"name": "web", "namespace": "shop", "annotations": {"team": "a"}})
    );
    assert_eq!((&deployment["apiVersion"], &deployment["status"]), (&json!("apps/v1"), &Value::Null));
    assert_eq!(service["spec"]["ports"], json!([{"name": "http", "port": 80, "targetPort": "queue-proxy"}]));
    assert_eq!(hpa["metadata"]["annotations"]["autoscaling.rouse.dev/scale-to-zero"], "true");
    let external = &hpa["spec"]["metrics"][0]["external"];
    let scaled_on = (&external["metric"]["name"], &external["target"]["averageValue"]);
    assert_eq!(scaled_on, (&json!("desired-replicas"), &json!("1")), "no number");
    assert_eq!(external["metric"]["selector"]["matchLabels"]["service"], "web");
    assert_eq!(hpa["spec"]["maxReplicas"], 20);
}

#[tokio::test]
async fn number_of_the_user_is_the_target() {
    let objects = objects(&shop(), &["--concurrency", "25"]).await;
    let external = &objects[1]["spec"]["metrics"][0]["external"];
    assert_eq!(external["metric"]["name"], "concurrency");
    assert_eq!(external["target"], json!({"type": "AverageValue", "averageValue": "25"}));
    assert!(Cli::try_parse_from(["kubectl-rouse", "init", "deploy/web", "--concurrency", "0"]).is_err());
}

#[tokio::test]
async fn pods_that_serve_tcp_need_a_number() {
    let api = shop();
    let mut deployment = api.get(DEPLOYMENT).unwrap();
    deployment["spec"]["template"]["metadata"]["annotations"] =
        json!({"autoscaling.rouse.dev/protocol": "tcp"});
    api.put(DEPLOYMENT, deployment);
    let error = run(&api, &["init", "deploy/web"]).await.err().unwrap().to_string();
    assert!(error.contains("--concurrency"), "{error}");
    let hpa = &objects(&api, &["--concurrency", "100"]).await[1];
    assert_eq!(hpa["spec"]["metrics"][0]["external"]["target"]["averageValue"], "100");
}

#[tokio::test]
async fn service_account_token_is_advice() {
    let text = run(&shop(), &["init", "deploy/web"]).await.unwrap().text;
    assert!(text.contains("# each wake waits a quarter of a second for the volume"), "{text}");
}

#[tokio::test]
async fn steps_part_the_pods_from_the_traffic() {
    let kinds = |objects: Vec<Value>| -> Vec<String> {
        objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(objects(&shop(), &["--with-sidecar", "--step", "pods"]).await), ["Deployment"]);
    let traffic = kinds(objects(&shop(), &["--with-sidecar", "--step", "traffic"]).await);
    assert_eq!(traffic, ["Service", "HorizontalPodAutoscaler"]);
}

#[tokio::test]
async fn prints_patches_that_do_the_same() {
    let text = run(&shop(), &["init", "deploy/web", "--with-sidecar"]).await.unwrap().text;
    for patch in [
        r#"kubectl --namespace shop patch deployment web --patch '{"spec":{"template":{"metadata":{"labels":{"autoscaling.rouse.dev/inject":"true"}}}}}'"#,
        r#"kubectl --namespace shop patch service web --patch '{"spec":{"ports":[{"port":80,"targetPort":"queue-proxy"}]}}'"#,
    ] {
        assert!(text.contains(patch), "{text}");
    }
}

#[tokio::test]
async fn existing_hpa_keeps_its_metrics_and_gets_one_more() {
    let api = shop();
    api.put(HPA, json!({
        "metadata": {"name": "web-cpu", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 3, "maxReplicas": 30, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}],
        },
    }));
    let objects = objects(&api, &["--step", "traffic"]).await;
    let hpa = &objects[1];
    assert_eq!((&hpa["metadata"]["name"], &hpa["spec"]["minReplicas"]), (&json!("web-cpu"), &json!(3)));
    assert_eq!(hpa["spec"]["metrics"][0]["resource"]["name"], "cpu");
    assert_eq!(hpa["spec"]["metrics"][1]["external"]["metric"]["name"], "desired-replicas");
    assert_eq!(hpa["spec"]["behavior"]["scaleDown"]["tolerance"], "0");
}

/// Beside KEDA, which owns external.metrics.k8s.io, an external metric would never have a value.
#[tokio::test]
async fn hpa_has_a_metric_of_the_service_where_rouse_serves_custom_metrics() {
    let api = shop();
    let serves =
        |name: &str| api.set_discovery("/apis/custom.metrics.k8s.io/v1beta2", json!([{"name": name}]));
    serves("services/desired-replicas");
    let planned = objects(&api, &[]).await;
    let metric = json!({"type": "Object", "object": {
        "metric": {"name": "desired-replicas"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "target": {"type": "AverageValue", "averageValue": "1"},
    }});
    assert_eq!(planned[1]["spec"]["metrics"], json!([metric]));
    api.put(HPA, planned[1].clone());
    assert_eq!(objects(&api, &["--step", "traffic"]).await.len(), 1, "the HPA stays as it is");
    serves("pods/http_requests");
    api.remove(HPA);
    assert!(objects(&api, &[]).await[1]["spec"]["metrics"][0]["external"].is_object(), "of another adapter");
}

#[tokio::test]
async fn hpa_that_keeps_its_own_metrics_alone_gets_none() {
    let api = shop();
    api.put(
        HPA,
        json!({
            "metadata": {"name": "web-cpu", "namespace": "shop", "annotations": {
                "autoscaling.rouse.dev/metric": "none", "autoscaling.rouse.dev/service": "web",
            }},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 30, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}],
            },
        }),
    );
    let hpa = &objects(&api, &[]).await[1];
    assert_eq!(hpa["spec"]["metrics"].as_array().unwrap().len(), 1);
    assert_eq!(hpa["spec"]["behavior"], Value::Null);
    assert_eq!(hpa["metadata"]["annotations"]["autoscaling.rouse.dev/scale-to-zero"], "true");
}

#[tokio::test]
async fn pods_stay_as_they_are_and_the_service_follows_from_them() {
    let api = shop();
    let plain = objects(&api, &[]).await;
    let [service, hpa] = plain.as_slice() else { panic!("{plain:#?}") };
    assert!(service["spec"].as_object().unwrap().contains_key("selector"), "null removes it from the object");
    assert_eq!(
        (&service["spec"]["selector"], &service["spec"]["ports"][0]["targetPort"]),
        (&Value::Null, &json!(8080))
    );
    let annotations = json!({"autoscaling.rouse.dev/scale-to-zero": "true"});
    assert_eq!(hpa["metadata"]["annotations"], annotations, "nothing else is to be said");
    let mut deployment = api.get(DEPLOYMENT).unwrap();
    deployment["spec"]["template"]["metadata"]["labels"]["autoscaling.rouse.dev/inject"] = json!("true");
    api.put(DEPLOYMENT, deployment);
    let labelled = objects(&api, &[]).await;
    let [service, _] = labelled.as_slice() else { panic!("{labelled:#?}") };
    assert_eq!(service["spec"]["selector"], json!({"app": "web"}));
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "queue-proxy");
}

#[tokio::test]
async fn app_port_of_the_service_is_annotated_where_the_sidecar_would_take_another() {
    let api = shop();
    put_service(&api, "web", json!([{"port": 80, "targetPort": 3000}]));
    let objects = objects(&api, &["--with-sidecar", "--step", "pods"]).await;
    let annotations = &objects[0]["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["autoscaling.rouse.dev/app-port"], "3000");
}

#[tokio::test]
async fn sidecar_gets_another_port_where_the_app_has_one_of_its_own() {
    let api = shop();
    let mut deployment = api.get(DEPLOYMENT).unwrap();
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 8080}, {"name": "metrics", "containerPort": 9090}]);
    api.put(DEPLOYMENT, deployment);
    let objects = objects(&api, &["--with-sidecar", "--step", "pods"]).await;
    let annotations = &objects[0]["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations, &json!({"autoscaling.rouse.dev/sidecar-stats-port": "19090"}));
}

#[tokio::test]
async fn refuses_what_has_no_single_usable_service_with_the_fix() {
    let api = shop();
    put_service(&api, "web-admin", json!([{"port": 81}]));
    let error = run(&api, &["init", "deploy/web"]).await.err().unwrap().to_string();
    assert!(error.contains("web, web-admin all select the pods") && error.contains("--service"), "{error}");
    assert!(run(&api, &["init", "deploy/web", "--service", "web"]).await.is_ok());
    api.remove("/api/v1/namespaces/shop/services/web-admin");
    let mut service = api.get(SERVICE).unwrap();
    service["spec"]["clusterIP"] = json!("None");
    api.put(SERVICE, service);
    let error = run(&api, &["init", "deploy/web"]).await.err().unwrap().to_string();
    assert!(error.contains("headless"), "{error}");
    api.remove(SERVICE);
    let error = run(&api, &["init", "deploy/web"]).await.err().unwrap().to_string();
    assert!(error.contains("no Service selects the pods"), "{error}");
    let error = run(&api, &["init", "job/web"]).await.err().unwrap().to_string();
    assert!(error.contains("deployment/NAME"), "{error}");
}

#[tokio::test]
async fn apply_shows_the_difference_writes_it_and_prints_how_to_take_it_back() {
    let api = shop();
    let service = api.get(SERVICE).unwrap();
    let text = run(&api, &["init", "deploy/web", "--apply"]).await.unwrap().text;
    assert!(text.contains(r#"- spec.selector: {"app":"web"}"#), "{text}");
    assert_eq!(api.get(SERVICE).unwrap()["spec"].get("selector").filter(|it| !it.is_null()), None);
    let made = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
    let annotations = json!({"autoscaling.rouse.dev/scale-to-zero": "true"});
    assert_eq!(api.get(made).unwrap()["metadata"]["annotations"], annotations);
    let (_, undo) = text.split_once("To undo it").unwrap();
    assert!(undo.contains("kubectl --namespace shop delete horizontalpodautoscaler web"), "{undo}");
    let patch = undo.split("--patch '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    let patch: Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["spec"], json!({"selector": service["spec"]["selector"]}), "the Service as before");
    let again = run(&api, &["init", "deploy/web", "--apply", "--service", "web"]).await.unwrap().text;
    assert!(again.contains("Nothing is to be changed"), "{again}");
}

#[tokio::test]
async fn apply_writes_nothing_where_one_change_is_refused() {
    let api = shop();
    let before = api.objects();
    api.refuse_writes("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers", Some("no such right"));
    let error = run(&api, &["init", "deploy/web", "--apply"]).await.err().unwrap().to_string();
    assert!(error.contains("HorizontalPodAutoscaler web") && error.contains("no such right"), "{error}");
    assert_eq!(api.objects(), before);
    let error =
        run(&api, &["init", "deploy/web", "--with-sidecar", "--apply"]).await.err().unwrap().to_string();
    assert!(error.contains("--step pods"), "{error}");
    assert_eq!(api.objects(), before);
}

#[tokio::test]
async fn slow_start_sets_how_long_requests_and_pods_wait() {
    let annotations = async |start: &str| {
        let objects = objects(&shop(), &["--slow-start", start]).await;
        let hpa = objects.into_iter().find(|it| it["kind"] == "HorizontalPodAutoscaler").unwrap();
        ["wake-timeout", "progress-deadline"]
            .map(|name| hpa["metadata"]["annotations"][format!("autoscaling.rouse.dev/{name}")].clone())
    };
    assert_eq!(annotations("15m").await, [json!("900s"), json!("900s")]);
    assert_eq!(annotations("2m").await, [json!("120s"), Value::Null], "the default allows more");
    let too_long = ["kubectl-rouse", "init", "deploy/web", "--slow-start", "2h"];
    assert!(Cli::try_parse_from(too_long).is_err());
}
