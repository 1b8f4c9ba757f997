//! Both ends of the measured traffic: the load generator in front of a proxy and the backend behind
//! it.

pub(crate) mod backend;
mod connection;
mod generator;
mod load_stats;
pub(crate) mod poller;
pub(crate) mod response;
mod schedule;

pub(crate) use self::generator::Generator;
pub(crate) use self::load_stats::LoadStats;
pub(crate) use self::schedule::RequestRate;
