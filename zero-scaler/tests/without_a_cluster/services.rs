//! Services: their selectors and ports, their endpoints, and their owner among several workloads.

mod endpoints;
mod made_attached;
mod made_managed;
mod ownership;
mod pod_selection;
mod pod_template;
mod private_service;
mod selectors_and_ports;
mod uninstall;
mod without_sidecar;
