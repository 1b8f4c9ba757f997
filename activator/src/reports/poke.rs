//! The moment at which a poke left this process.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

/// Set when the first connection has sent the poke of a wake.
pub type PokeSent = Arc<OnceLock<Instant>>;
