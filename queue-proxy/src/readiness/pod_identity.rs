//! PodIdentity: for which pod a request is meant, by the UID that an activator sends.
//!
//! ```text
//!  rouse-proxied   absent ─► Direct     a client, by the Service
//!                  ours   ─► Proxied    an activator; it has counted the request
//!                  other  ─► OtherPod   refused, with 421
//! ```
//!
//! The UID shows two things, because activators read it from the API, and a pod without credentials
//! cannot read another pod's UID: the request comes from an activator, and this is the pod that the
//! activator means, not one that got its address. So the UID is in no response and no log.
//!
//! A request with another UID is refused, not served as a direct one. An activator's request must
//! not reach another workload. A client that forges the header gains nothing: a refused request is
//! not load that it could hide.

use std::convert::Infallible;
use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use autoscaler::contract::{PROXIED_HEADER, PROXIED_WITHOUT_UID, START_DRAIN_HEADER};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use proxy::gateway::Sender;

const PROXIED: HeaderName = HeaderName::from_static(PROXIED_HEADER);

/// The UID of a pod. Its debug output hides it.
#[derive(Clone)]
pub struct PodUid(Box<[u8]>);

/// The pod of this sidecar. Clones are equal.
#[derive(Clone, Debug)]
pub(crate) struct PodIdentity {
    uid: Option<PodUid>,
}

/// For which pod a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A client chose this pod, by its Service.
    Direct,
    /// An activator chose this pod, and has counted the request.
    Proxied,
    /// An activator means another pod.
    OtherPod,
}

// === impl Destination ===

impl Destination {
    /// The peer that sent such a request.
    pub(crate) fn sender(self) -> Sender {
        match self {
            Self::Proxied => Sender::OwnProxy,
            Self::Direct | Self::OtherPod => Sender::Client,
        }
    }
}

// === impl PodIdentity ===

impl PodIdentity {
    /// The pod with this UID. Without a UID, all requests are direct: requests of activators count
    /// twice, which can make a workload too large, but never hides load.
    pub(crate) fn new(uid: Option<PodUid>) -> Self {
        Self { uid }
    }

    /// For which pod the request with these headers is meant.
    pub(crate) fn destination(&self, headers: &HeaderMap) -> Destination {
        let Some(uid) = &self.uid else { return Destination::Direct };
        match headers.get(PROXIED) {
            None => Destination::Direct,
            Some(sent) if sent == PROXIED_WITHOUT_UID => Destination::Direct,
            Some(sent) if uid.is(sent.as_bytes()) => Destination::Proxied,
            Some(_) => Destination::OtherPod,
        }
    }

    /// The header by which `queue-proxy start-drain` shows that it runs in this pod.
    pub(crate) fn start_drain_value(&self) -> Option<HeaderValue> {
        let Some(PodUid(uid)) = &self.uid else { return Some(HeaderValue::from_static("")) };
        HeaderValue::from_bytes(uid).ok()
    }

    /// Whether the request with these headers is one of `queue-proxy start-drain` in this pod. Not
    /// a browser, nor an app that sends what its clients want, has the UID. Without a UID the
    /// header must be there, which no page of another origin can send.
    pub(crate) fn may_start_drain(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(START_DRAIN_HEADER);
        sent.is_some_and(|sent| self.uid.as_ref().is_none_or(|uid| uid.is(sent.as_bytes())))
    }
}

// === impl PodUid ===

impl PodUid {
    /// Compares in a time that does not depend on the first byte that differs.
    fn is(&self, other: &[u8]) -> bool {
        let differences = self.0.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        self.0.len() == other.len() && differences == 0
    }
}

impl FromStr for PodUid {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.as_bytes().into()))
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodUid(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b2c7d5e-8f43-4a60-9d0c-6f3ad9c5e1b7";

    fn destination(own: Option<&str>, sent: Option<&str>) -> Destination {
        let sent = sent.map(|sent| (PROXIED, HeaderValue::from_str(sent).unwrap()));
        let identity = PodIdentity::new(own.map(|own| own.parse().unwrap()));
        identity.destination(&sent.into_iter().collect())
    }

    #[test]
    fn only_the_whole_uid_counts_as_proxied() {
        assert_eq!(destination(Some(UID), Some(UID)), Destination::Proxied);
        assert_eq!(destination(Some(UID), None), Destination::Direct);
        for other in ["", "1", &UID[1..], &UID[..35], &format!("{UID}0"), &UID.to_uppercase()] {
            assert_eq!(destination(Some(UID), Some(other)), Destination::OtherPod, "{other:?}");
        }
    }

    #[test]
    fn mark_without_uid_of_older_activators_is_direct() {
        assert_eq!(destination(Some(UID), Some("activator")), Destination::Direct);
    }

    #[test]
    fn without_own_uid_every_request_is_direct() {
        for sent in [None, Some("activator"), Some(UID), Some("")] {
            assert_eq!(destination(None, sent), Destination::Direct, "{sent:?}");
        }
    }

    #[test]
    fn drain_is_started_with_the_uid_if_there_is_one() {
        let may = |own: Option<&str>, sent: Option<&str>| {
            let headers =
                sent.map(|sent| (HeaderName::from_static(START_DRAIN_HEADER), sent.parse().unwrap()));
            let identity = PodIdentity::new(own.map(|own| own.parse().unwrap()));
            identity.may_start_drain(&headers.into_iter().collect())
        };
        assert!(may(Some(UID), Some(UID)) && may(None, Some("")));
        for (own, sent) in [(Some(UID), None), (Some(UID), Some("")), (Some(UID), Some("1")), (None, None)] {
            assert!(!may(own, sent), "{own:?} {sent:?}");
        }
    }

    #[test]
    fn debug_output_hides_the_uid() {
        let identity = PodIdentity::new(Some(UID.parse().unwrap()));
        assert!(!format!("{identity:?}").contains(UID));
    }
}
