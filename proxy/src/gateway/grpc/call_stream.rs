//! CallStream: the response of a call that has begun, and how it ends if its app does not end it.
//!
//! gRPC-Web has its trailers in the body, as a last frame behind the messages. Within a message
//! there is no place for it, so such a body is cut.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Version, response};
use http_body::Frame;

use super::call_failure::{Call, CallFailure};
use super::web_messages::{HEAD, TRAILERS, WebMessages, WebText, base64};

/// A response whose end is a status.
#[derive(Debug)]
pub enum CallStream {
    /// With trailers of HTTP/2.
    Grpc,
    /// With trailers in the body.
    Web(WebMessages),
    /// The same in base64.
    WebText(WebText),
}

// === impl CallStream ===

impl CallStream {
    /// The stream behind a head; `None` if it is none of a call, or cannot be ended here.
    pub fn of(head: &response::Parts) -> Option<Self> {
        match Call::of_content(&head.headers)? {
            Call::Grpc if head.version == Version::HTTP_2 => Some(Self::Grpc),
            Call::Grpc => None,
            // The messages of a coded body cannot be read here.
            _ if [CONTENT_LENGTH, CONTENT_ENCODING].iter().any(|name| head.headers.contains_key(name)) => {
                None
            }
            Call::Web => Some(Self::Web(WebMessages::default())),
            Call::WebText => Some(Self::WebText(WebText::default())),
        }
    }

    /// Records a frame that is sent to the client.
    pub fn record(&mut self, frame: &Frame<Bytes>) {
        match (self, frame.data_ref()) {
            (Self::Web(messages), Some(data)) => messages.record(data),
            (Self::WebText(text), Some(data)) => text.record(data),
            (Self::Grpc, _) | (_, None) => {}
        }
    }

    /// The last frame of a response that ends with `failure`; `None` if it has to be cut.
    pub fn end(&self, failure: &CallFailure) -> Option<Frame<Bytes>> {
        match self {
            Self::Grpc => Some(Frame::trailers(failure.trailers())),
            Self::Web(messages) => messages.may_end().then(|| Frame::data(web_trailers(failure))),
            Self::WebText(text) => text.may_end().then(|| Frame::data(base64(&web_trailers(failure)))),
        }
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
    fn last(content: &str, parts: &[&'static [u8]]) -> Option<Bytes> {
        let mut stream = stream(content, None).unwrap();
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
            let last = last("application/grpc-web+proto", parts).unwrap();
            assert_eq!(last[HEAD..], trailers[..], "{parts:?}");
            assert_eq!((last[0], usize::from(last[4])), (TRAILERS, trailers.len()), "{parts:?}");
        }
        let within: [&[&'static [u8]]; 4] =
            [&[b"\0"], &[b"\0\0\0\0\x02h"], &[b"\0\0\0\0\x02", b"h"], &[b"\x80\0\0\0\x01x"]];
        for parts in within {
            assert_eq!(last("application/grpc-web+proto", parts), None, "{parts:?}");
        }
    }

    #[test]
    fn web_call_in_text_ends_with_its_status_between_messages_alone() {
        let trailers = "gAAAACJncnBjLXN0YXR1czo0DQpncnBjLW1lc3NhZ2U6bGF0ZQ0K";
        let text = "application/grpc-web-text+proto";
        let ends: [&[&'static [u8]]; 5] =
            [&[], &[b"AAAAAAJoaQ=="], &[b"AAA", b"AAAJoaQ=", b"="], &[b"AAAAAAA=AAAAAAF4"], &[b"AAAAAAEv"]];
        for parts in ends {
            assert_eq!(last(text, parts).unwrap(), trailers, "{parts:?}");
        }
        let within: [&[&'static [u8]]; 5] =
            [&[b"AAAA"], &[b"AAAAAAJo"], &[b"AAAAAAJoaQ="], &[b"gAAAAAF4"], &[b"AAAAAAJoaQ==!"]];
        for parts in within {
            assert_eq!(last(text, parts), None, "{parts:?}");
        }
    }

    #[test]
    fn other_responses_are_cut() {
        assert!(stream("application/grpc-web", Some(9)).is_none());
        assert!(stream("application/grpc-web-text", Some(9)).is_none());
        assert!(stream("application/grpc", None).is_none(), "over HTTP/1.1");
        assert!(stream("text/plain", None).is_none());
        let coded = Response::builder().header("content-type", "application/grpc-web");
        let coded = coded.header("content-encoding", "gzip").body(()).unwrap();
        assert!(CallStream::of(&coded.into_parts().0).is_none());
    }
}
