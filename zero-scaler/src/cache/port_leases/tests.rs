//! Claims of the same port, ports that rest, and quotas.

use autoscaler::contract::FIRST_LEASED_PORTS;
use serde_json::json;

use super::*;

const HTTP: [u16; 1] = [80];

struct Leases {
    leases: PortLeases,
    now: Instant,
    led_to: BTreeSet<u16>,
}

impl Leases {
    fn new(quota: u32) -> Self {
        let leases = PortLeases::new(NonZeroU32::new(quota).unwrap());
        Self { leases, now: crate::clock::now(), led_to: BTreeSet::new() }
    }

    /// An object with these ports in its status: Service port, activator port.
    fn see(&self, name: &str, ports: &[(u16, u16)]) -> Key {
        self.see_owned_by(name, "PodAutoscaler", ports)
    }

    fn see_owned_by(&self, name: &str, kind: &str, ports: &[(u16, u16)]) -> Key {
        let lease = |(service, activator): &(u16, u16)| json!({"name": "http", "servicePort": service, "activatorPort": activator, "podPort": 8012});
        let ports: Vec<_> = ports.iter().map(lease).collect();
        let sks: ServerlessService = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": [
                {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]},
            "spec": {"service": name, "selector": "app=a", "mode": "Proxy", "numActivators": 2,
                "containerConcurrency": 0},
            "status": {"ports": ports, "activators": 0},
        }))
        .unwrap();
        let key = Key::new("shop", name);
        self.leases.observe(&key, Some(&sks), self.now);
        key
    }

    fn delete(&self, key: &Key) {
        self.leases.observe(key, None, self.now);
    }

    fn grant(&self, key: &Key, ports: &[u16]) -> Result<Ports, PortLeaseError> {
        let (uid, ports) = (format!("u-{key}"), ports.iter().copied().collect());
        self.leases.grant(key, &uid, &ports, |port| self.led_to.contains(&port), self.now)
    }

    fn port(&self, key: &Key) -> u16 {
        self.grant(key, &HTTP).unwrap()[&80]
    }
}

#[test]
fn granted_port_is_taken_before_status_has_it() {
    let leases = Leases::new(10_000);
    let all: Vec<Key> = (0..200).map(|i| leases.see(&format!("web-{i}"), &[])).collect();
    let mut seen = BTreeSet::new();
    for key in &all {
        let ports = leases.grant(key, &[80, 443]).unwrap();
        assert!(ports.values().all(|port| seen.insert(*port)), "{ports:?}");
        assert_eq!(leases.grant(key, &[80, 443]), Ok(ports));
    }
}

#[test]
fn first_claim_of_a_port_keeps_it_and_a_later_one_gets_another() {
    let leases = Leases::new(10_000);
    let holder = leases.see("web", &[(80, 20_000)]);
    let forger = leases.see("a-forger", &[(80, 20_000)]);
    assert_eq!((leases.port(&holder), leases.port(&forger) == 20_000), (20_000, false));
    // Updates of the holder do not put it behind the other claim.
    leases.see("web", &[(80, 20_000), (443, 20_001)]);
    leases.see("a-forger", &[(80, 20_000)]);
    assert_eq!((leases.port(&holder), leases.port(&forger) == 20_000), (20_000, false));
}

#[test]
fn claim_without_a_pod_autoscaler_does_not_count() {
    let leases = Leases::new(10_000);
    let forger = leases.see_owned_by("forger", "ReplicaSet", &[(80, 20_000)]);
    let holder = leases.see("web", &[(80, 20_000)]);
    assert_eq!((leases.port(&holder), leases.port(&forger) == 20_000), (20_000, false));
}

#[test]
fn port_rests_for_others_after_it_was_given_back() {
    let mut leases = Leases::new(10_000);
    let first = leases.see("a", &[(80, 20_000)]);
    leases.delete(&first);
    let claims_it = |leases: &Leases, name: &str| {
        let key = leases.see(name, &[]);
        let taken: Vec<u16> = LEASED_PORTS.filter(|port| *port != 20_000).collect();
        let all = BTreeSet::from(HTTP);
        let is_led_to = |port| leases.led_to.contains(&port) || taken.contains(&port);
        let granted = leases.leases.grant(&key, "u-2", &all, is_led_to, leases.now);
        leases.delete(&key);
        granted.is_ok()
    };
    assert!(!claims_it(&leases, "b"));
    // While a slice leads there it rests, however long that takes, and for the whole time after it.
    leases.led_to.insert(20_000);
    leases.now += 10 * REST;
    assert!(!claims_it(&leases, "b"));
    leases.led_to.clear();
    leases.leases.left_by_slices(&[20_000], leases.now);
    leases.now += REST - Duration::from_secs(1);
    assert!(!claims_it(&leases, "b"));
    leases.now += Duration::from_secs(1);
    assert!(claims_it(&leases, "b"));
}

#[test]
fn recreated_workload_gets_its_resting_port_back() {
    let mut leases = Leases::new(10_000);
    let first = leases.see("a", &[(80, 20_000), (443, 20_001)]);
    leases.led_to.extend([20_000, 20_001]);
    leases.delete(&first);
    assert_eq!(leases.grant(&leases.see("a", &[]), &[80, 443]), Ok([(80, 20_000), (443, 20_001)].into()));
    leases.leases.retain(&BTreeSet::new(), leases.now);
    assert_eq!(leases.port(&leases.see("a", &[])), 20_000);
}

#[test]
fn port_to_which_slices_lead_is_not_leased_by_a_new_process() {
    let mut leases = Leases::new(10_000);
    leases.led_to = LEASED_PORTS.filter(|port| *port != 20_007).collect();
    assert_eq!(leases.port(&leases.see("a", &[])), 20_007);
    // Its own slices lead to the port of a workload that reports it.
    assert_eq!(leases.port(&leases.see("b", &[(80, 20_009)])), 20_009);
}

#[test]
fn leases_further_ports_when_the_first_are_used_up_and_keeps_them_after_a_restart() {
    let leases = Leases::new(60_000);
    leases.see("holder", &FIRST_LEASED_PORTS.map(|port| (port, port)).collect::<Vec<_>>());
    let keys = (0..20).map(|i| leases.see(&format!("web-{i}"), &[]));
    let ports: BTreeSet<u16> = keys.map(|key| leases.port(&key)).collect();
    assert_eq!(ports.len(), 20);
    for port in ports {
        assert!(LEASED_PORTS.contains(&port) && !FIRST_LEASED_PORTS.contains(&port), "{port}");
        let restarted = Leases::new(1);
        assert_eq!(restarted.port(&restarted.see("web", &[(80, port)])), port);
    }
}

#[test]
fn namespace_has_a_quota_of_ports_and_keeps_those_that_it_has() {
    let leases = Leases::new(2);
    let [a, b] = ["a", "b"].map(|name| leases.see(name, &[]));
    let port = leases.port(&a);
    assert_eq!(leases.grant(&b, &[80, 443]), Err(PortLeaseError::QuotaExceeded { service_port: 443 }));
    leases.port(&b);
    assert_eq!(leases.grant(&a, &[80, 443]), Err(PortLeaseError::QuotaExceeded { service_port: 443 }));
    assert_eq!(leases.port(&a), port);
    let other = Key::new("other", "c");
    leases.port(&other);
    leases.delete(&b);
    assert!(leases.grant(&a, &[80, 443]).is_ok());
}
