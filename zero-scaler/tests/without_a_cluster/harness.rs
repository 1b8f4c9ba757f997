//! A simulated cluster with one workload, and the zero-scalers that manage it.

pub(crate) mod cluster;
pub(crate) mod scenario;
mod slice_controllers;
pub(crate) mod stock_hpa;
