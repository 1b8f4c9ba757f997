//! Where one run of a proxy takes place: its ports, the backend and a directory of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

/// Below the ports that the kernel gives to clients: a client that looks whether anybody listens could be given that very port,
/// and then talk to itself.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

/// What a proxy must know to be started.
#[derive(Debug)]
pub(crate) struct Site {
    /// Where it is to listen.
    pub(crate) listen: SocketAddr,
    /// Where it may listen besides.
    pub(crate) spare: [SocketAddr; 2],
    /// Where the app is.
    pub(crate) backend: SocketAddr,
    /// For its files.
    pub(crate) directory: PathBuf,
}

// === impl Site ===

impl Site {
    pub(super) fn new(backend: SocketAddr, directory: PathBuf) -> Result<Self> {
        Ok(Self { listen: free_port()?, spare: [free_port()?, free_port()?], backend, directory })
    }

    /// Writes a configuration with this site's words in the places of `@LISTEN@`, `@BACKEND@` (or their parts, as `@LISTEN_PORT@`) and `@DIRECTORY@`.
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
            .find(|line| line.contains('@'))
        {
            Some(line) => bail!("nothing is known for {:?}", line.trim()),
            None => Ok(filled),
        }
    }
}

/// A port that nobody listens on, and that was not given before.
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
    use super::*;

    fn site() -> Site {
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Site {
            listen: address(1),
            spare: [address(2), address(3)],
            backend: address(4),
            directory: "/run/x".into(),
        }
    }

    #[test]
    fn every_word_is_filled_in() {
        let filled =
            site().fill("# words in @\nlisten @LISTEN@;\nserver @BACKEND@;\npid @DIRECTORY@/pid;\n").unwrap();
        assert_eq!(filled, "# words in @\nlisten 127.0.0.1:1;\nserver 127.0.0.1:4;\npid /run/x/pid;\n");
        assert!(site().fill("listen @LISTNE@;").unwrap_err().to_string().contains("@LISTNE@"));
    }

    #[test]
    fn the_peers_configurations_name_nothing_unknown() {
        for template in [super::super::nginx::CONFIGURATION, super::super::haproxy::CONFIGURATION] {
            let filled = site().fill(template).unwrap();
            assert!(
                filled.contains("127.0.0.1:1") && filled.contains("server 127.0.0.1:4")
                    || filled.contains("server app 127.0.0.1:4"),
                "{filled}"
            );
        }
    }

    #[test]
    fn no_port_is_given_twice() {
        assert_ne!(free_port().unwrap(), free_port().unwrap());
    }
}
