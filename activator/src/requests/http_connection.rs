//! HttpConnection: the memory of a connection to a leased port, which an idle one loses to others
//! when the budget is full.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use proxy::memory::budget::MemoryPermit;
use proxy::memory::open_connections::{ConnectionActivity, ConnectionPlace};
use proxy::server::ConnectionGuard;

use crate::queue::workload_throttler::WorkloadThrottler;
use crate::requests::error_response::{self, RequestError};

/// Counts the requests of a connection.
pub type HttpActivity = ConnectionActivity<MemoryPermit>;

/// An open connection.
#[derive(Debug)]
pub struct HttpConnection {
    workload: Arc<WorkloadThrottler>,
    place: ConnectionPlace<MemoryPermit>,
}

// === impl HttpConnection ===

impl HttpConnection {
    /// Takes the memory of a connection; `None` if it must be closed.
    pub fn admit(workload: Arc<WorkloadThrottler>) -> Option<Self> {
        let place = workload.memory().admit_http_connection()?;
        Some(Self { workload, place })
    }

    /// Counts its requests.
    pub fn activity(&self) -> HttpActivity {
        self.place.activity()
    }
}

impl ConnectionGuard for HttpConnection {
    type Permit = MemoryPermit;

    fn take_memory(&self, bytes: u64) -> Result<MemoryPermit, Box<Response<Full<Bytes>>>> {
        let taken = self.workload.memory().take_upload(bytes);
        taken.map_err(|rejection| {
            let error = RequestError::from(rejection);
            let response = error_response::respond(&error, self.workload.key());
            self.workload.metrics().answered(response.status());
            Box::new(response)
        })
    }

    fn admits_http2(&self) -> bool {
        self.workload.memory().admit_http2().map(|permit| self.place.keep_http2(permit)).is_some()
    }

    async fn closed(&self) {
        self.place.closed().await;
        self.workload.metrics().idle_connection_closed();
    }
}
