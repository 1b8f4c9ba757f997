//! Reconcilers of HPAs, PodAutoscalers and ServerlessServices, and what they share.

pub mod context;
pub mod hpa;
pub mod orphans;
pub mod ownership;
pub mod pod_autoscaler;
pub mod reconciler;
pub mod serverless_service;
pub mod silent_activators;
