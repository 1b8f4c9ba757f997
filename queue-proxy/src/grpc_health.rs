//! GrpcHealth: one call of grpc.health.v1.Health/Check, as a kubelet makes it.
//!
//! The two messages have one field each, so they are written and read by hand: a gRPC library would be larger than the
//! sidecar.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

const METHOD: &str = "/grpc.health.v1.Health/Check";
/// HealthCheckResponse.ServingStatus.SERVING.
const SERVING: u64 = 1;
/// Length of what comes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Longest answer that is read; a proper one has seven bytes.
const LONGEST: usize = 1024;
/// Tag of the one field of either message: number 1, as a string or as a number.
const NAME: u8 = 0x0a;
const STATUS: u64 = 0x08;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Whether the server at the other end of `stream` says that `service` serves.
pub(crate) async fn serves(stream: TcpStream, service: &str) -> Result<bool, Error> {
    let authority = stream.peer_addr()?.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let request = Request::post(format!("http://{authority}{METHOD}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, crate::app_readiness::USER_AGENT)
        .body(Full::new(question(service)))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK || is_error(response.headers()) {
            return Ok(false);
        }
        let collected = Limited::new(response.into_body(), LONGEST).collect().await?;
        let failed = collected.trailers().is_none_or(|trailers| !is_ok(trailers));
        Ok(!failed && status(&collected.to_bytes()) == Some(SERVING))
    };
    // The connection is driven beside the call, and never ends before it.
    tokio::select! {
        biased;
        serves = exchange => serves,
        ended = connection => Err(ended.map_or_else(Into::into, |()| "the connection was closed".into())),
    }
}

/// A HealthCheckRequest, with what comes before a message.
fn question(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(NAME);
        put_varint(&mut message, service.len() as u64);
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put(message);
    framed.freeze()
}

/// The status in a HealthCheckResponse; 0 is never written out. None if it is no such message.
fn status(framed: &[u8]) -> Option<u64> {
    let (prefix, mut message) = framed.split_at_checked(PREFIX)?;
    let (compressed, length) = prefix.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    if *compressed != 0 || usize::try_from(length).ok()? != message.len() {
        return None;
    }
    let mut status = 0;
    while !message.is_empty() {
        let tag = take_varint(&mut message)?;
        // The field's kind is in the last three bits.
        match tag & 7 {
            0 => {
                let value = take_varint(&mut message)?;
                status = if tag == STATUS { value } else { status };
            }
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(take_varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn put_varint(to: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        to.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.put_u8(value as u8);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn is_ok(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").map(HeaderValue::as_bytes) == Some(b"0")
}

/// Servers that have only an error to say put it into the head.
fn is_error(headers: &HeaderMap) -> bool {
    headers.contains_key("grpc-status") && !is_ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_as_protobuf_writes_it() {
        assert_eq!(question("").as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(question("ab").as_ref(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = question(&"x".repeat(300));
        assert_eq!(&long[..8], [0, 0, 0, 1, 47, 0x0a, 0xac, 2]);
    }

    #[test]
    fn the_answer_is_read_and_what_is_none_is_refused() {
        for (framed, expected) in [
            (&[0, 0, 0, 0, 2, 8, 1][..], Some(SERVING)),
            (&[0, 0, 0, 0, 2, 8, 2], Some(2)),
            (&[0, 0, 0, 0, 0], Some(0)),
            // Fields that may come one day.
            (&[0, 0, 0, 0, 6, 0x12, 2, 8, 9, 8, 1], Some(SERVING)),
            (&[0, 0, 0, 0, 3, 8, 1], None),
            (&[1, 0, 0, 0, 2, 8, 1], None),
            (&[0, 0, 0, 0, 1, 8], None),
            (&[0, 0, 0, 0, 2, 0x12, 9], None),
            (&[0, 0, 0, 0, 11, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255], None),
            (&[], None),
        ] {
            assert_eq!(status(framed), expected, "{framed:?}");
        }
    }
}
