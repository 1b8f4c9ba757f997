//! The modes of the benchmark, one module each; the command line selects one of them.

pub(crate) mod comparison;
pub(crate) mod exchanges;
pub(crate) mod held_requests;
pub(crate) mod http2;
pub(crate) mod profile;
pub(crate) mod soak;
pub(crate) mod without_sidecars;
