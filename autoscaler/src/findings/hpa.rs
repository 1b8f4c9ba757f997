//! HPAs with a metric of Rouse: whether they can be followed, and what should be changed in them.

mod acceptance;
mod advice;
mod annotations;
mod lag;
mod metric_failure;
mod metric_source;

pub use acceptance::{AcceptedHpa, HpaAcceptance, accept, deletion_of, is_ambiguous};
pub use annotations::annotated_without_metric;
pub use lag::slow_hpa;
pub use metric_failure::{is_metric_failure, metric_failure};
pub use metric_source::{HpaMetricSource, named_service, rouse_metrics};
