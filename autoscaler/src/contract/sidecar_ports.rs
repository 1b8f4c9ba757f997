//! SidecarPorts: the ports on which the sidecar of one pod listens.
//!
//! Input: the ports that its container declares, or the annotations of a pod that gets a sidecar.
//! Activators and metrics-adapters read them from each pod, so the pods of one workload may differ,
//! as they do while a rollout changes them.

use serde::{Deserialize, Serialize};

use super::{
    QUEUE_PROXY, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_ADMIN_PORT_NAME, QUEUE_PROXY_PORT,
    QUEUE_PROXY_STATS_PORT, QUEUE_PROXY_STATS_PORT_NAME,
};
use crate::Protocol;

/// Annotation on pods: traffic port of the sidecar.
pub const SIDECAR_PORT: &str = "autoscaling.rouse.dev/sidecar-port";
/// Annotation on pods: admin port of the sidecar.
pub const SIDECAR_ADMIN_PORT: &str = "autoscaling.rouse.dev/sidecar-admin-port";
/// Annotation on pods: statistics port of the sidecar.
pub const SIDECAR_STATS_PORT: &str = "autoscaling.rouse.dev/sidecar-stats-port";

/// The ports of one sidecar, on which no other container of its pod can listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarPorts {
    /// Traffic: see [`QUEUE_PROXY_PORT`].
    pub traffic: u16,
    /// Readiness, drain and TCP tunnels: see [`QUEUE_PROXY_ADMIN_PORT`].
    pub admin: u16,
    /// Statistics, by TCP and UDP: see [`QUEUE_PROXY_STATS_PORT`].
    pub stats: u16,
}

/// Why a sidecar does not start with its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidecarPortsError {
    /// The value of an annotation is not a number from 1 to 65535.
    #[error("annotation {0} is not a port from 1 to 65535")]
    Invalid(&'static str),
    /// Two of the three are the same.
    #[error("two ports of the sidecar have the number {0}")]
    Repeated(u16),
}

// === impl SidecarPorts ===

impl SidecarPorts {
    /// From the names and numbers that the sidecar's container declares. A port that it does not
    /// declare has the default number.
    pub fn declared<'a>(ports: impl IntoIterator<Item = (&'a str, u16)>) -> Self {
        let mut declared = Self::default();
        for (name, number) in ports {
            match name {
                QUEUE_PROXY => declared.traffic = number,
                QUEUE_PROXY_ADMIN_PORT_NAME => declared.admin = number,
                QUEUE_PROXY_STATS_PORT_NAME => declared.stats = number,
                _ => {}
            }
        }
        declared
    }

    /// From the annotations of a pod. Without one, or with an empty one, a port has the default
    /// number. An invalid one makes it 0, and the API server then rejects the pod.
    pub fn annotated<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let port = |name, default| match annotation(name).filter(|value| !value.is_empty()) {
            None => default,
            Some(value) => parse(value).unwrap_or_default(),
        };
        let defaults = Self::default();
        Self {
            traffic: port(SIDECAR_PORT, defaults.traffic),
            admin: port(SIDECAR_ADMIN_PORT, defaults.admin),
            stats: port(SIDECAR_STATS_PORT, defaults.stats),
        }
    }

    /// Whether a sidecar can listen on all three ports.
    ///
    /// # Errors
    /// When one is invalid, or two are the same.
    pub fn validate(&self) -> Result<(), SidecarPortsError> {
        if self.all().contains(&0) {
            return Err(SidecarPortsError::Invalid(self.annotation_of(0)));
        }
        let Self { traffic, admin, stats } = *self;
        match [(traffic, admin), (traffic, stats), (admin, stats)].into_iter().find(|(a, b)| a == b) {
            Some((port, _)) => Err(SidecarPortsError::Repeated(port)),
            None => Ok(()),
        }
    }

    /// The three ports.
    pub fn all(&self) -> [u16; 3] {
        [self.traffic, self.admin, self.stats]
    }

    /// The annotation that chooses the port with this number.
    pub fn annotation_of(&self, port: u16) -> &'static str {
        match port {
            port if port == self.admin => SIDECAR_ADMIN_PORT,
            port if port == self.stats => SIDECAR_STATS_PORT,
            _ => SIDECAR_PORT,
        }
    }

    /// Where activators send requests of a protocol. On the admin port, the sidecar can distinguish
    /// activators' TCP connections from clients'.
    pub fn for_protocol(&self, protocol: Protocol) -> u16 {
        match protocol {
            Protocol::Http => self.traffic,
            Protocol::Tcp => self.admin,
        }
    }
}

impl Default for SidecarPorts {
    fn default() -> Self {
        Self { traffic: QUEUE_PROXY_PORT, admin: QUEUE_PROXY_ADMIN_PORT, stats: QUEUE_PROXY_STATS_PORT }
    }
}

/// Up to five digits, as the admission policy accepts them.
fn parse(value: &str) -> Option<u16> {
    let is_number = value.len() <= 5 && value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_ports_replace_defaults_by_name() {
        let declared = [("queue-stats", 19090), ("http", 1), ("queue-proxy", 18012)];
        let expected = SidecarPorts { traffic: 18012, admin: 8022, stats: 19090 };
        assert_eq!(SidecarPorts::declared(declared), expected);
        assert_eq!(expected.for_protocol(Protocol::Http), 18012);
        assert_eq!(expected.for_protocol(Protocol::Tcp), 8022);
        assert_eq!(SidecarPorts::declared([]), SidecarPorts::default());
    }

    #[test]
    fn annotated_ports_are_three_different_numbers() {
        let annotated = |name: &str, value: &'static str| {
            SidecarPorts::annotated(|annotation| (annotation == name).then_some(value))
        };
        let chosen = annotated(SIDECAR_STATS_PORT, "19090");
        assert_eq!(chosen, SidecarPorts { stats: 19090, ..SidecarPorts::default() });
        assert_eq!((chosen.validate(), chosen.annotation_of(19090)), (Ok(()), SIDECAR_STATS_PORT));
        assert_eq!(annotated(SIDECAR_ADMIN_PORT, ""), SidecarPorts::default());
        assert_eq!(annotated(SIDECAR_STATS_PORT, "8012").validate(), Err(SidecarPortsError::Repeated(8012)));
        for value in ["0", "65536", "+9000", "web", "-1", "008012"] {
            for name in [SIDECAR_PORT, SIDECAR_ADMIN_PORT, SIDECAR_STATS_PORT] {
                assert_eq!(
                    annotated(name, value).validate(),
                    Err(SidecarPortsError::Invalid(name)),
                    "{value}"
                );
            }
        }
    }
}
