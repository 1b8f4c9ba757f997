//! CallStream: the response of a call that has begun, and how it ends if its app does not end it.
//!
//! gRPC-Web has its trailers in the body, as a last frame behind the messages. Within a message
//! there is no place for it, so such a body is cut.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Version, response};
use http_body::Frame;

use super::call_failure::{Call, CallFailure};

/// Bytes of the head of a message: flags, and a length.
const HEAD: usize = 5;
/// Flag of the frame with the trailers.
const TRAILERS: u8 = 0x80;

/// A response whose end is a status.
#[derive(Debug)]
pub enum CallStream {
    /// With trailers of HTTP/2.
    Grpc,
    /// With trailers in the body.
    Web(WebMessages),
}

/// The place in a body of gRPC-Web.
#[derive(Debug, Default)]
pub struct WebMessages {
    head: [u8; HEAD],
    /// Bytes of the head that were read.
    head_read: usize,
    /// Bytes of the message that are missing.
    left: u32,
    has_trailers: bool,
}

// === impl CallStream ===

impl CallStream {
    /// The stream behind a head; `None` if it is none of a call, or cannot be ended here.
    pub fn of(head: &response::Parts) -> Option<Self> {
        match Call::of_content(&head.headers)? {
            Call::Grpc if head.version == Version::HTTP_2 => Some(Self::Grpc),
            Call::Web if !head.headers.contains_key(CONTENT_LENGTH) => {
                Some(Self::Web(WebMessages::default()))
            }
            Call::Grpc | Call::Web | Call::WebText => None,
        }
    }

    /// Records a frame that is sent to the client.
    pub fn record(&mut self, frame: &Frame<Bytes>) {
        if let (Self::Web(messages), Some(data)) = (self, frame.data_ref()) {
            messages.record(data);
        }
    }

    /// The last frame of a response that ends with `failure`; `None` if it has to be cut.
    pub fn end(&self, failure: &CallFailure) -> Option<Frame<Bytes>> {
        match self {
            Self::Grpc => Some(Frame::trailers(failure.trailers())),
            Self::Web(messages) => messages.may_end().then(|| Frame::data(web_trailers(failure))),
        }
    }
}

// === impl WebMessages ===

impl WebMessages {
    fn record(&mut self, mut data: &[u8]) {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let read = data.len().min(self.left as usize);
                self.left -= u32::try_from(read).unwrap_or(self.left);
                data = data.get(read..).unwrap_or_default();
                continue;
            }
            if let Some(byte) = self.head.get_mut(self.head_read) {
                *byte = *first;
            }
            self.head_read += 1;
            if self.head_read == HEAD {
                let [flags, length @ ..] = self.head;
                (self.head_read, self.left) = (0, u32::from_be_bytes(length));
                self.has_trailers |= flags & TRAILERS != 0;
            }
            data = rest;
        }
    }

    fn may_end(&self) -> bool {
        self.left == 0 && self.head_read == 0 && !self.has_trailers
    }
}

fn web_trailers(failure: &CallFailure) -> Bytes {
    let mut lines = BytesMut::new();
    for (name, value) in &failure.trailers() {
        for part in [name.as_str().as_bytes(), b":", value.as_bytes(), b"\r\n"] {
            lines.put_slice(part);
        }
    }
    let mut frame = BytesMut::with_capacity(HEAD + lines.len());
    frame.put_u8(TRAILERS);
    frame.put_u32(u32::try_from(lines.len()).unwrap_or(u32::MAX));
    frame.put(lines);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn stream(content: &str, length: Option<u32>) -> Option<CallStream> {
        let mut head = Response::builder().header("content-type", content);
        if let Some(length) = length {
            head = head.header("content-length", length);
        }
        CallStream::of(&head.body(()).unwrap().into_parts().0)
    }

    /// The last frame behind these parts of a body.
    fn last(parts: &[&'static [u8]]) -> Option<Bytes> {
        let mut stream = stream("application/grpc-web+proto", None).unwrap();
        parts.iter().for_each(|part| stream.record(&Frame::data(Bytes::from_static(part))));
        let last = stream.end(&CallFailure::timed_out("late".into()))?;
        Some(last.into_data().unwrap())
    }

    #[test]
    fn web_call_ends_with_its_status_between_messages_alone() {
        let trailers = b"grpc-status:4\r\ngrpc-message:late\r\n";
        let ends: [&[&'static [u8]]; 4] =
            [&[], &[b"\0\0\0\0\x02hi"], &[b"\0\0", b"\0\0\x02h", b"i"], &[b"\0\0\0\0\0\0\0\0\0\x01x"]];
        for parts in ends {
            let last = last(parts).unwrap();
            assert_eq!(last[HEAD..], trailers[..], "{parts:?}");
            assert_eq!((last[0], usize::from(last[4])), (TRAILERS, trailers.len()), "{parts:?}");
        }
        let within: [&[&'static [u8]]; 4] =
            [&[b"\0"], &[b"\0\0\0\0\x02h"], &[b"\0\0\0\0\x02", b"h"], &[b"\x80\0\0\0\x01x"]];
        for parts in within {
            assert_eq!(last(parts), None, "{parts:?}");
        }
    }

    #[test]
    fn other_responses_are_cut() {
        assert!(stream("application/grpc-web", Some(9)).is_none());
        assert!(stream("application/grpc-web-text", None).is_none());
        assert!(stream("application/grpc", None).is_none(), "over HTTP/1.1");
        assert!(stream("text/plain", None).is_none());
    }
}
