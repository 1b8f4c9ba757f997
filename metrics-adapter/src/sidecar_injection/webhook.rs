//! Webhook: the HTTP part of sidecar injection, with its bounds.
//!
//! Errors are text with a status of 4xx, which the API server puts into its message. With the
//! failure policy `Ignore` it then creates the pod without a sidecar.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::metrics::OutcomeCounters;
use crate::sidecar_injection::SidecarSettings;
use crate::sidecar_injection::review::{ReviewError, element_count, respond};
use crate::sidecar_injection::review_places::ReviewPlaces;

/// The path of the webhook, as the MutatingWebhookConfiguration names it.
pub const PATH: &str = "/mutate-pods";

/// Bytes of a review. The API server accepts objects of 3 MiB.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Bodies in memory, in all and of one peer address.
const PLACES: usize = 24;
const PLACES_PER_PEER: usize = 8;
/// Reviews that are decoded at the same time. The API server's take less than a millisecond; a
/// hostile one takes longer, and then occupies no more than one of the threads.
const DECODERS: usize = 1;
/// A review with more elements is delayed before it is decoded, so that the reviews of one peer
/// occupy no thread. A pod of 20 containers has fewer.
const LARGE: usize = 5_000;
const DELAY_OF_LARGE: Duration = Duration::from_millis(250);
/// Time for a place, and then for the body: as long as the API server waits in all.
const PATIENCE: Duration = Duration::from_secs(3);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The mutating admission webhook for pods.
#[derive(Debug)]
pub struct Webhook {
    settings: Option<SidecarSettings>,
    places: ReviewPlaces,
    decoders: Semaphore,
    reviews: OutcomeCounters,
}

/// Why a request has no review as its response.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// No image is set.
    #[error("the webhook for the sidecar is not served; set --sidecar-image (ROUSE_SIDECAR_IMAGE)")]
    NotServed,
    /// Not POST.
    #[error("method {0} is not supported; reviews are sent by POST")]
    MethodNotAllowed(Method),
    /// HTTP/2, with many waiting bodies on one connection. API servers send reviews over HTTP/1.1.
    #[error("reviews are accepted over HTTP/1.1 alone")]
    OtherHttpVersion,
    /// No place became free.
    #[error("too many concurrent reviews")]
    TooManyReviews,
    /// The body did not arrive in time.
    #[error("the review did not arrive within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// The body is too large.
    #[error("the review has more than {MAX_BODY} bytes")]
    TooLarge,
    /// The body could not be read.
    #[error("the review could not be read: {0}")]
    Body(#[source] BoxError),
    /// The body is not a review of the creation of a pod.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// The response could not be encoded.
    #[error("the response could not be encoded: {0}")]
    Encode(#[source] serde_json::Error),
}

// === impl Webhook ===

impl Webhook {
    /// A webhook that adds this sidecar; it is not served without `settings`.
    pub fn new(settings: Option<SidecarSettings>, reviews: OutcomeCounters) -> Self {
        let places = ReviewPlaces::new(PLACES, PLACES_PER_PEER);
        Self { settings, places, decoders: Semaphore::new(DECODERS), reviews }
    }

    /// Serves one request from `peer`.
    pub async fn serve<B>(&self, request: Request<B>, peer: IpAddr) -> Response<Full<Bytes>>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let result = self.try_serve(request, peer).await;
        if !matches!(result, Err(WebhookError::NotServed)) {
            self.reviews.count(result.is_ok());
        }
        let (status, content_type, body) = match result {
            Ok(review) => (StatusCode::OK, "application/json", review),
            Err(error) => {
                tracing::debug!(%peer, %error, "review failed");
                (error.code(), "text/plain; charset=utf-8", error.to_string().into())
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }

    async fn try_serve<B>(&self, request: Request<B>, peer: IpAddr) -> Result<Vec<u8>, WebhookError>
    where
        B: Body<Error: Into<BoxError>>,
    {
        let settings = self.settings.as_ref().ok_or(WebhookError::NotServed)?;
        if request.method() != Method::POST {
            return Err(WebhookError::MethodNotAllowed(request.method().clone()));
        }
        if request.version() >= Version::HTTP_2 {
            return Err(WebhookError::OtherHttpVersion);
        }
        let place = timeout(PATIENCE, self.places.acquire(peer)).await;
        let Ok(Ok(_place)) = place else { return Err(WebhookError::TooManyReviews) };
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = timeout(PATIENCE, body).await.map_err(|_| WebhookError::TooSlow)?.map_err(body_error)?;
        let body = body.to_bytes();
        if element_count(&body) > LARGE {
            sleep(DELAY_OF_LARGE).await;
        }
        let Ok(_decoder) = self.decoders.acquire().await else { return Err(WebhookError::TooManyReviews) };
        let review = respond(&body, settings)?;
        serde_json::to_vec(&review).map_err(WebhookError::Encode)
    }
}

// === impl WebhookError ===

impl WebhookError {
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotServed => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::OtherHttpVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::TooManyReviews => StatusCode::TOO_MANY_REQUESTS,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(_) | Self::Review(_) => StatusCode::BAD_REQUEST,
            Self::Encode(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn body_error(error: BoxError) -> WebhookError {
    if error.is::<LengthLimitError>() { WebhookError::TooLarge } else { WebhookError::Body(error) }
}
