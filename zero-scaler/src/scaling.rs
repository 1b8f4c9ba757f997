//! Reads and writes of the `/scale` subresource.

pub(crate) mod last_activation;
pub mod overrides;
pub mod scale;
pub mod scale_targets;
pub mod wake;
