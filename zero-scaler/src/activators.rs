//! The activators of the installation: which are there, and whether a Service leads to them.

pub mod directory;
pub mod path_probe;
pub mod path_verification;
