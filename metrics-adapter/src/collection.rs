//! Collection: load reports from activators and pods become windows of averages, one set a
//! workload.
//!
//! Activators push over the [`stat_server`](crate::stat_server); pods are read by the
//! [`stats_scraper`], each second by the [`scrape_loop`]. Both fill the [`collector`], which the
//! multi-scaler and the API read. [`load_recordings`] have copies of both, for clients that record
//! a load. [`pod_reports`] are what activators observe of pods without a sidecar, and [`busy_pods`]
//! the pods with requests.

pub mod busy_pods;
pub mod collector;
pub mod idle_reads;
pub mod load_recordings;
pub mod pod_reports;
pub mod scrape_client;
pub mod scrape_loop;
pub mod scrape_schedule;
pub mod stat_datagrams;
pub mod stats_scraper;
pub mod window_clock;
