//! The cluster of the tests: the installation of Rouse on it, its API, and a namespace for each
//! test with its NetworkPolicies.

pub mod account_token;
pub mod cluster_tool;
pub mod container_process;
pub mod helm;
pub mod impersonation;
pub mod installation;
pub mod kubectl;
pub mod lock;
pub mod namespace;
pub mod network_policies;
pub mod packet_filter;
pub mod placement;
pub mod scale;
pub mod version;
