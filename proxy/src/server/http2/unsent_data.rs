//! UnsentData: data of responses from the moment h2 gets it until h2 drops it: written, or with its
//! stream. A client that reads no response leaves it there, also after the end of the exchange.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes};

/// Bytes of the responses of a connection that the client has not read.
pub(super) type UnsentBytes = Arc<AtomicUsize>;

/// Data that counts until it is dropped.
#[derive(Debug)]
pub(super) struct UnsentData {
    data: Bytes,
    counted: usize,
    total: UnsentBytes,
}

// === impl UnsentData ===

impl UnsentData {
    pub(super) fn new(data: Bytes, total: &UnsentBytes) -> Self {
        let counted = data.len();
        total.fetch_add(counted, Ordering::Relaxed);
        Self { data, counted, total: total.clone() }
    }
}

impl Buf for UnsentData {
    fn remaining(&self) -> usize {
        self.data.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.data
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
    }
}

impl Drop for UnsentData {
    fn drop(&mut self) {
        self.total.fetch_sub(self.counted, Ordering::Relaxed);
    }
}
