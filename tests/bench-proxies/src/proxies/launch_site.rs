//! LaunchSite: the ports, the backend and the directory of one started proxy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

/// Below the kernel's ephemeral ports. A client that probes for a listener could otherwise get the
/// probed port as its own local port, and connect to itself.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

/// The addresses and files of one proxy.
#[derive(Debug)]
pub(crate) struct LaunchSite {
    /// Address for the traffic.
    pub(crate) listen: SocketAddr,
    /// Addresses for other ports, as `/metrics`.
    pub(crate) spare: [SocketAddr; 2],
    pub(crate) backend: SocketAddr,
    /// Directory of the proxy's configuration and log.
    pub(crate) directory: PathBuf,
}

// === impl LaunchSite ===

impl LaunchSite {
    pub(super) fn new(backend: SocketAddr, directory: PathBuf) -> Result<Self> {
        Ok(Self { listen: free_port()?, spare: [free_port()?, free_port()?], backend, directory })
    }

    /// Writes a configuration in which `@LISTEN@`, `@BACKEND@` (or their parts, as `@LISTEN_PORT@`)
    /// and `@DIRECTORY@` are replaced.
    pub(super) fn write(&self, name: &str, template: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, self.fill(template)?).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn fill(&self, template: &str) -> Result<String> {
        let filled = template
            .replace("@LISTEN@", &self.listen.to_string())
            .replace("@LISTEN_PORT@", &self.listen.port().to_string())
            .replace("@BACKEND@", &self.backend.to_string())
            .replace("@BACKEND_IP@", &self.backend.ip().to_string())
            .replace("@BACKEND_PORT@", &self.backend.port().to_string())
            .replace("@DIRECTORY@", &self.directory.display().to_string());
        match filled
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .find(|line| has_placeholder(line))
        {
            Some(line) => bail!("unknown placeholder in {:?}", line.trim()),
            None => Ok(filled),
        }
    }
}

/// Whether capital letters stand between two `@`.
fn has_placeholder(line: &str) -> bool {
    let between: Vec<&str> = line.split('@').skip(1).collect();
    let inner = between.split_last().map(|(_, inner)| inner).unwrap_or_default();
    inner.iter().any(|text| {
        !text.is_empty() && text.bytes().all(|byte| b"_ABCDEFGHIJKLMNOPQRSTUVWXYZ".contains(&byte))
    })
}

/// A port without a listener that this function has not returned before.
fn free_port() -> Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.start);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if !PORTS.contains(&port) {
            bail!("no port from {} to {} is free", PORTS.start, PORTS.end);
        }
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Protocol;
    use super::*;

    fn site() -> LaunchSite {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        LaunchSite {
            listen: address(1),
            spare: [address(2), address(3)],
            backend: address(4),
            directory: "/run/x".into(),
        }
    }

    #[test]
    fn replaces_every_placeholder() {
        let filled =
            site().fill("# in @\nlisten @LISTEN@;\nserver @BACKEND@;\npid @DIRECTORY@/pid;\n").unwrap();
        assert_eq!(filled, "# in @\nlisten 127.0.0.1:1;\nserver 127.0.0.1:4;\npid /run/x/pid;\n");
        assert!(site().fill("listen @LISTNE@;").unwrap_err().to_string().contains("@LISTNE@"));
    }

    #[test]
    fn peer_configurations_have_no_unknown_placeholder() {
        let of_both = |configuration: fn(Protocol) -> String| {
            [Protocol::Http1, Protocol::Http2].map(configuration).to_vec()
        };
        let mut templates = vec![super::super::nginx::CONFIGURATION.to_owned()];
        templates.extend(of_both(super::super::haproxy::configuration));
        templates.extend(of_both(super::super::envoy::configuration));
        for template in templates {
            let filled = site().fill(&template).unwrap();
            let has = |one: &str, other: &str| filled.contains(one) || filled.contains(other);
            assert!(has("127.0.0.1:1", "port_value: 1"), "{filled}");
            assert!(has("127.0.0.1:4", "port_value: 4"), "{filled}");
        }
    }

    #[test]
    fn returns_each_port_once() {
        assert_ne!(free_port().unwrap(), free_port().unwrap());
    }
}
