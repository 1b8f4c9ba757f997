//! Crashes, lost watches, a slow API, lost activators and concurrent writers.

mod activator_loss;
mod concurrent_writers;
mod crashes;
mod many_workloads;
mod rate_limit;
mod refused_writes;
mod settings;
mod silent_activators;
mod undecodable_objects;
mod watches;
