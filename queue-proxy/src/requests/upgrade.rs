//! HTTP upgrades (websocket): after a 101 the connections of client and app become one tunnel.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use http_client::{ResponseBody, SwitchedConnection};
use hyper::upgrade::OnUpgrade;
use proxy::memory::budget::{BudgetExceeded, MemoryPermit};
use proxy::memory::estimates::CONNECTION_BYTES;
use proxy::timeouts::request_body::RequestBody;
use proxy::{gateway, tcp};

use crate::memory::ClientAccount;

/// The client's connection, in case the app accepts the upgrade.
#[derive(Debug)]
pub(super) struct Upgrade {
    client: OnUpgrade,
    /// The connection ends for the server, and goes on as a tunnel.
    memory: Option<MemoryPermit>,
}

/// A tunnel that the app has accepted.
#[derive(Debug)]
pub(super) struct Tunnel {
    upgrade: Upgrade,
    app: SwitchedConnection,
}

// === impl Upgrade ===

impl Upgrade {
    /// The client's connection, if the request is for an upgrade. To be called before the request
    /// is prepared for the next hop.
    ///
    /// # Errors
    /// When the memory of the client is used up.
    pub(super) fn of(
        request: &mut Request<RequestBody>,
        memory: &ClientAccount,
    ) -> Result<Option<Self>, BudgetExceeded> {
        if !gateway::is_upgrade_request(request) {
            return Ok(None);
        }
        let memory = memory.take_request(CONNECTION_BYTES)?;
        Ok(Some(Self { client: hyper::upgrade::on(request), memory }))
    }

    /// The tunnel, if the response switches protocols.
    pub(super) fn accepted(self, response: &mut Response<ResponseBody>) -> Option<Tunnel> {
        let app = response.body_mut().take_switched()?;
        Some(Tunnel { upgrade: self, app })
    }
}

// === impl Tunnel ===

impl Tunnel {
    /// Relays bytes in both directions until both sides are done, or no byte passes for `idle`, and
    /// then drops `guard`. Returns the response, which has no body.
    pub(super) fn relay<B, G: Send + 'static>(
        self,
        response: Response<ResponseBody>,
        guard: G,
        idle: Option<Duration>,
    ) -> Response<Either<B, Full<Bytes>>> {
        let Self { upgrade: Upgrade { client, memory }, app } = self;
        tokio::spawn(tcp::relay_upgraded(client, app, (guard, memory), response.headers(), idle));
        response.map(|_| Either::Right(Full::default()))
    }
}
