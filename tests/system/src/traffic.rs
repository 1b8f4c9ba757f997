//! Load, and the metric that results: requests of a client pod, reports of a simulated activator,
//! queries as an HPA sends them.

pub mod load;
pub mod metric;
pub mod simulated_activator;
