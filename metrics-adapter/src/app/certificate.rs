//! The serving certificate: mounted, or the process's own, whose CA is then written to the objects
//! by which the API server connects.

use std::sync::Arc;

use autoscaler::contract::{CUSTOM_API, EXTERNAL_API, GROUP, INJECTION};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::COMPONENT;
use crate::app::context::Context;
use crate::args::Args;
use crate::tls::ca_bundle::{self, CaBundleReconciler};
use crate::tls::certificate_resolver::CertificateResolver;
use crate::tls::mounted_certificate;
use crate::tls::serving_certificate::ServingCertificate;

/// The Service of this process: the name in its certificate, in the APIServices and in the webhook.
const SERVICE: &str = "metrics-adapter";

/// The resolver of the serving certificate. Starts the tasks that maintain it.
pub(super) fn resolver(args: &Args, context: &Context, tasks: &mut JoinSet<()>) -> Arc<CertificateResolver> {
    let latch = context.readiness.latch("serving certificate");
    let not_after = context.metrics.certificate_not_after.clone();
    if let Some(directory) = args.serving_certificate.clone() {
        let resolver = Arc::<CertificateResolver>::default();
        tasks.spawn(mounted_certificate::watch_files(directory, resolver.clone(), not_after, latch));
        return resolver;
    }
    let (ca, changes) = watch::channel(None);
    let (client, namespace) = (context.client.clone(), &args.system_namespace);
    let own = ServingCertificate::new(client, namespace, SERVICE, ca, not_after, latch);
    let resolver = own.resolver();
    tasks.spawn(own.run());
    publish(args, context, &changes, tasks);
    resolver
}

/// Starts the tasks that write the CA to the APIServices and to the webhook.
fn publish(
    args: &Args,
    context: &Context,
    changes: &watch::Receiver<Option<String>>,
    tasks: &mut JoinSet<()>,
) {
    let (client, metrics) = (&context.client, &context.metrics);
    let reporter =
        Reporter { controller: format!("{GROUP}/{COMPONENT}"), instance: Some(args.pod_name.clone()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let reconciler = |name, owned| CaBundleReconciler {
        client: client.clone(),
        name,
        service: (args.system_namespace.clone(), SERVICE.to_owned()),
        recorder: recorder.clone(),
        owned,
    };
    let custom = args.custom_metrics.then_some(CUSTOM_API);
    for name in [Some(EXTERNAL_API), custom].into_iter().flatten() {
        let reconciler = reconciler(name, metrics.api_service_owned.with_label_values(&[name]));
        tasks.spawn(ca_bundle::reconcile::<APIService>(reconciler, changes.clone()));
    }
    if args.sidecar.settings().is_some() {
        let reconciler = reconciler(INJECTION, metrics.webhook_owned.with_label_values(&[INJECTION]));
        tasks.spawn(ca_bundle::reconcile::<MutatingWebhookConfiguration>(reconciler, changes.clone()));
    }
}
