use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::*;

const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn containers(all: Value) -> Containers {
    Containers { all: serde_json::from_value(all).unwrap(), ..Containers::default() }
}

/// One container with port `http`, 8080, and this readiness probe.
fn app(probe: Value) -> Containers {
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    containers(json!([{"name": "app", "ports": ports, "readinessProbe": probe}]))
}

fn of_ports(containers: &Containers, ports: &[AppPort]) -> Option<PodProbe> {
    PodProbe::of_app(containers, IP, ports.iter(), false)
}

fn of(containers: &Containers) -> Option<PodProbe> {
    of_ports(containers, &[AppPort::Number(8080)])
}

/// The probes, if they can be run from here.
fn probes(probe: Value) -> Option<Vec<ContainerProbe>> {
    match of(&app(probe))? {
        PodProbe::Containers(probes) => Some(probes.to_vec()),
        other => panic!("{other:?}"),
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::new(IP, port)
}

#[test]
fn http_get_probe_has_all_fields_of_the_spec() {
    let probe = probes(json!({
        "httpGet": {"path": "/healthz?a=b", "port": "http", "scheme": "HTTP", "httpHeaders": [{"name": "Host", "value": "shop"}]},
        "timeoutSeconds": 3, "periodSeconds": 10, "successThreshold": 2, "failureThreshold": 3,
    }));
    let probe = probe.unwrap().pop().unwrap();
    assert_eq!((probe.timeout, probe.successes), (Duration::from_secs(3), 2));
    let expected = ProbeAction::http_get(address(8080), Some("/healthz?a=b"), [("host", "shop")]).unwrap();
    assert_eq!(probe.action, expected);
}

#[test]
fn absent_fields_have_defaults_of_kubernetes() {
    for (probe, action) in [
        (json!({"httpGet": {"port": 8081}}), ProbeAction::http_get(address(8081), Some("/"), []).unwrap()),
        (json!({"tcpSocket": {"port": "http"}}), ProbeAction::Tcp(address(8080))),
        (
            json!({"grpc": {"port": 9000, "service": "shop"}}),
            ProbeAction::Grpc { address: address(9000), service: "shop".into() },
        ),
        (json!({"grpc": {"port": 9000}}), ProbeAction::Grpc { address: address(9000), service: "".into() }),
    ] {
        let expected = ContainerProbe { action, timeout: Duration::from_secs(1), successes: 1 };
        assert_eq!(probes(probe.clone()), Some(vec![expected]), "{probe}");
    }
}

#[test]
fn probes_that_only_the_kubelet_can_run_leave_the_condition() {
    for probe in [
        json!({"exec": {"command": ["true"]}}),
        json!({"httpGet": {"port": 8080, "scheme": "HTTPS"}}),
        json!({"httpGet": {"port": 8080, "host": "db"}}),
        json!({"tcpSocket": {"port": 8080, "host": "db"}}),
        json!({"httpGet": {"port": "absent"}}),
        json!({"httpGet": {"port": 8080, "path": "/a b"}}),
        json!({"httpGet": {"port": 8080}, "initialDelaySeconds": 1}),
        json!({}),
        Value::Null,
    ] {
        assert_eq!(of(&app(probe.clone())), None, "{probe}");
    }
}

#[test]
fn no_probe_before_all_startup_probes_have_succeeded() {
    let starting = Containers { is_starting: true, ..app(json!({"tcpSocket": {"port": 8080}})) };
    assert_eq!(of(&starting), None);
    assert!(of(&Containers { is_starting: false, ..starting }).is_some());
}

#[test]
fn readiness_gates_leave_the_condition() {
    let gated = Containers { has_readiness_gates: true, ..app(json!({"tcpSocket": {"port": 8080}})) };
    assert_eq!(of(&gated), None);
}

#[test]
fn probes_of_all_containers_must_succeed() {
    let probe = json!({"tcpSocket": {"port": 8080}});
    let with = |second: Value| {
        let second = json!({"name": "cache", "readinessProbe": second});
        containers(
            json!([{"name": "app", "ports": [{"containerPort": 8080}], "readinessProbe": probe}, second]),
        )
    };
    let Some(PodProbe::Containers(both)) = of(&with(json!({"grpc": {"port": 9000}}))) else { panic!() };
    assert_eq!(both.len(), 2);
    let Some(PodProbe::Containers(one)) = of(&with(Value::Null)) else { panic!() };
    assert_eq!(one.len(), 1);
    assert_eq!(of(&with(json!({"exec": {}}))), None);
}

#[test]
fn container_with_the_target_port_must_have_a_probe() {
    let all = containers(json!([
        {"name": "app", "ports": [{"name": "http", "containerPort": 8080}]},
        {"name": "admin", "ports": [{"name": "admin", "containerPort": 9000}],
            "readinessProbe": {"tcpSocket": {"port": 9001}}},
    ]));
    let [http, admin] = ["http", "admin"].map(|name| AppPort::Name(name.into()));
    assert_eq!(of_ports(&all, std::slice::from_ref(&http)), None);
    assert!(of_ports(&all, std::slice::from_ref(&admin)).is_some());
    assert_eq!(of_ports(&all, &[admin.clone(), http]), None, "each port of the Service");
    assert!(of_ports(&all, &[admin, AppPort::Name("of-other-pods".into())]).is_some());
    assert!(of_ports(&all, &[AppPort::Number(9001)]).is_some(), "the port of the probe");
    assert_eq!(of_ports(&all, &[AppPort::Number(7000)]), None, "the container is not determined");
}

#[test]
fn port_without_declaration_belongs_to_the_only_container() {
    let probe = json!({"httpGet": {"port": 8081}});
    let only = containers(json!([{"name": "app", "readinessProbe": probe}]));
    assert!(of_ports(&only, &[AppPort::Number(7000)]).is_some());
}

#[test]
fn pod_that_was_ready_is_verified_by_a_connection() {
    let exec = app(json!({"exec": {}}));
    let ports = [AppPort::Name("absent".into()), AppPort::Name("http".into())];
    let probe = |was_ready| PodProbe::of_app(&exec, IP, ports.iter(), was_ready);
    assert_eq!(probe(true), Some(PodProbe::Connection(address(8080))));
    assert_eq!(probe(false), None);
    let usable = app(json!({"tcpSocket": {"port": 8080}}));
    let probe = PodProbe::of_app(&usable, IP, ports.iter(), true);
    assert!(matches!(probe, Some(PodProbe::Containers(_))), "its own probe is preferred: {probe:?}");
}
