//! Requests that share an HTTP/2 connection, to a sidecar and to an activator, do not stop each
//! other: uploads that wait take no window of the one that runs, and callers that stop reading none
//! of the others.
//!
//! The connections come through forwarded ports, so each is one to exactly this process.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::SksMode;
use autoscaler::contract::{ADMIN_PORT, LEASED_PORTS, QUEUE_PROXY_PORT, QUEUE_PROXY_STATS_PORT};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use system_tests::cluster::installation::{begin_shared, component_selector, system_api};
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};
use system_tests::traffic::forwarded_port::{self, RequestBody};
use system_tests::traffic::load::until_first_response;
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Sidecar, Workload, until_mode};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const NAME: &str = "streams";
/// Much longer than any request of these tests takes, and shorter than a request may wait.
const STOPPED: Duration = Duration::from_secs(20);
/// Bytes of one frame of the running upload.
const FRAME: usize = 64 << 10;
/// More frames than the buffers and windows on the way to a waiting request hold.
const FRAMES: usize = 24;
/// Bytes of a waiting upload, more than the window of its stream.
const WAITING_UPLOAD: usize = 256 << 10;
/// Bytes of a response that is not read, more than the windows on its way.
const UNREAD: usize = 4 << 20;
/// Time in which uploads and unread responses fill these windows.
const FILLED: Duration = Duration::from_secs(2);

type Http2 = SendRequest<RequestBody>;

/// A gauge of one process.
struct Gauge {
    pods: Api<Pod>,
    pod: String,
    port: u16,
    /// As in the exposition, with labels.
    series: String,
}

// === impl Gauge ===

impl Gauge {
    async fn until(&self, value: f64) -> Result<()> {
        wait::until(&format!("{} to be {value}", self.series), STOPPED, || async {
            let metrics =
                forwarded_port::get(&self.pods, &self.pod, self.port, "/metrics").await?.into_body();
            let line = metrics.lines().find_map(|line| line.strip_prefix(&self.series));
            let now: f64 = line.with_context(|| self.series.clone())?.trim().parse()?;
            ensure!((now - value).abs() < 0.5, "it is {now}");
            Ok(Some(()))
        })
        .await
    }
}

/// A workload with one pod, which serves so many requests at a time.
async fn single_pod(sidecar: Sidecar, container_concurrency: u32, namespace: &TestNamespace) -> Result<Pod> {
    let workload = Workload { sidecar, max_replicas: 1, container_concurrency, ..Workload::new(NAME) }
        .annotated("scale-to-zero", "false")
        .annotated("target-burst-capacity", "-1");
    workload.create(namespace).await?;
    until_first_response(&workload.url(namespace).await?, namespace, POD_START).await?;
    wait::until("the pod to be ready", POD_START, || async {
        Ok(pods_of(namespace, NAME).await?.into_iter().find(is_ready))
    })
    .await
}

/// An activator to which the Service leads, and the port of the workload there.
async fn activator(namespace: &TestNamespace) -> Result<(String, u16)> {
    until_mode(namespace, NAME, SksMode::Proxy).await?;
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
    wait::until("an activator in the slices", POD_START, || async {
        let slices = namespace.api::<EndpointSlice>().list(&of_service).await?;
        let ports = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
        let port = ports.filter_map(|port| u16::try_from(port.port?).ok()).find(|p| LEASED_PORTS.contains(p));
        let addresses: Vec<&String> = slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .flat_map(|endpoint| &endpoint.addresses)
            .collect();
        let pods = system_api::<Pod>(&namespace.client).list(&component_selector("activator")).await?;
        let is_in_slices = |pod: &&Pod| {
            pod.status
                .as_ref()
                .and_then(|status| status.pod_ip.as_ref())
                .is_some_and(|ip| addresses.contains(&ip))
        };
        Ok(pods.iter().find(is_in_slices).map(ResourceExt::name_any).zip(port))
    })
    .await
}

fn request(path: &str, body: RequestBody) -> Result<Request<RequestBody>> {
    Ok(Request::post(format!("http://{NAME}.example{path}")).body(body)?)
}

/// Reads a response to its end, and returns the length of its body.
async fn read(response: Response<Incoming>) -> Result<usize> {
    ensure!(response.status() == StatusCode::OK, "{response:?}");
    Ok(response.into_body().collect().await?.to_bytes().len())
}

/// An upload that sends its next frame when the server has taken the ones before.
fn upload() -> (mpsc::Sender<()>, RequestBody) {
    let (frames, requested) = mpsc::channel(1);
    let requested =
        stream::unfold(requested, async |mut requested| Some((requested.recv().await?, requested)));
    let body = requested.map(|()| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; FRAME]))));
    (frames, StreamBody::new(body).boxed_unsync())
}

async fn send_frames(frames: &mpsc::Sender<()>) -> Result<()> {
    let all = async {
        for _ in 0..FRAMES {
            frames.send(()).await.context("the upload ended")?;
        }
        Ok(())
    };
    timeout(STOPPED, all).await.context("the upload does not go on")?
}

/// Fails unless an upload that runs goes on beside others that wait on the same connection; `held`
/// counts those.
async fn running_upload_goes_on(client: Http2, waiting: u32, held: &Gauge) -> Result<()> {
    let (frames, body) = upload();
    let running = client.clone().send_request(request("/", body)?);
    let running = tokio::spawn(async move { read(running.await?).await });
    send_frames(&frames).await.context("alone")?;
    let uploads = (0..waiting).map(|_| {
        let body = Full::from(vec![b'x'; WAITING_UPLOAD]).boxed_unsync();
        let (mut client, request) = (client.clone(), request("/", body));
        tokio::spawn(async move { read(client.send_request(request?).await?).await })
    });
    let uploads: Vec<_> = uploads.collect();
    held.until(f64::from(waiting)).await?;
    sleep(FILLED).await;
    send_frames(&frames).await.context("beside uploads that wait")?;
    drop(frames);
    timeout(STOPPED, running).await.context("no response to the upload")???;
    let all = timeout(STOPPED, try_join_all(uploads)).await.context("uploads still wait")??;
    all.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn uploads_that_wait_in_sidecar_do_not_stop_running_one() -> Result<()> {
    let namespace = begin_shared("waiting-uploads").await?;
    let pod = single_pod(Sidecar::Native, 1, &namespace).await?.name_any();
    let pods: Api<Pod> = namespace.api();
    let client = forwarded_port::http2(&pods, &pod, QUEUE_PROXY_PORT).await?;
    let series = "rouse_queue_proxy_queue_depth ".to_owned();
    let queued = Gauge { pods, pod, port: QUEUE_PROXY_STATS_PORT, series };
    running_upload_goes_on(client, 8, &queued).await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn uploads_held_by_activator_do_not_stop_running_one() -> Result<()> {
    let modes = [("held-uploads", Sidecar::Native), ("held-uploads-plain", Sidecar::None)];
    try_join_all(modes.map(|(name, sidecar)| held_uploads_wait(name, sidecar))).await?;
    Ok(())
}

async fn held_uploads_wait(name: &str, sidecar: Sidecar) -> Result<()> {
    let namespace = begin_shared(name).await?;
    single_pod(sidecar, 1, &namespace).await?;
    let (pod, port) = activator(&namespace).await?;
    let pods: Api<Pod> = system_api(&namespace.client);
    let client = forwarded_port::http2(&pods, &pod, port).await?;
    let labels = format!("{{namespace=\"{}\",workload=\"{NAME}\"}}", namespace.name);
    let series = format!("rouse_activator_held_requests{labels} ");
    let held = Gauge { pods, pod, port: ADMIN_PORT, series };
    running_upload_goes_on(client, 16, &held).await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn slow_readers_do_not_stop_others_on_way_to_pod() -> Result<()> {
    let modes = [("slow-readers", Sidecar::Native), ("slow-readers-plain", Sidecar::None)];
    try_join_all(modes.map(|(name, sidecar)| slow_readers_wait(name, sidecar))).await?;
    Ok(())
}

async fn slow_readers_wait(name: &str, sidecar: Sidecar) -> Result<()> {
    let namespace = begin_shared(name).await?;
    single_pod(sidecar, 0, &namespace).await?;
    let (pod, port) = activator(&namespace).await?;
    // One connection, so that all requests are on one worker and its connection to the pod.
    let client = forwarded_port::http2(&system_api(&namespace.client), &pod, port).await?;
    let send = |bytes: usize| {
        let request = request(&format!("/?bytes={bytes}"), RequestBody::default());
        let mut client = client.clone();
        async move { Ok::<_, anyhow::Error>(client.send_request(request?).await?) }
    };
    let unread =
        timeout(STOPPED, try_join_all((0..3).map(|_| send(UNREAD)))).await.context("their heads")??;
    sleep(FILLED).await;
    for number in 0..20 {
        let length = timeout(STOPPED, async { read(send(FRAME).await?).await });
        let length = length.await.with_context(|| format!("request {number} beside slow readers"))??;
        ensure!(length == FRAME, "{length} bytes of {FRAME}");
    }
    for response in unread {
        let length = timeout(STOPPED, read(response)).await.context("a slow reader that reads on")??;
        ensure!(length == UNREAD, "{length} bytes of {UNREAD}");
    }
    namespace.end().await
}
