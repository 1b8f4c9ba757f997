//! The processes under test, as they are but for their sockets.

pub mod metrics_adapter;
pub mod zero_scaler;
