//! One call of grpc.health.v1.Health/Check, as the kubelet makes it.
//!
//! Both messages have one field, so they are encoded and decoded by hand: a gRPC library would be
//! larger than the sidecar.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use http_client::BoxError;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

const METHOD: &str = "/grpc.health.v1.Health/Check";
/// HealthCheckResponse.ServingStatus.SERVING.
const SERVING: u64 = 1;
/// Length of a message's prefix: compression flag and message length.
const PREFIX: usize = 5;
/// Bound of the response's body; a correct one has seven bytes.
const LONGEST: usize = 1024;
/// Tags of the only field of both messages: number 1, as a string and as a varint.
const NAME: u8 = 0x0a;
const STATUS: u64 = 0x08;

/// Whether the server behind `stream` reports SERVING for `service`.
pub(super) async fn is_serving(
    stream: TcpStream,
    service: &str,
    user_agent: &'static str,
) -> Result<bool, BoxError> {
    let authority = stream.peer_addr()?.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let request = Request::post(format!("http://{authority}{METHOD}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, user_agent)
        .body(Full::new(encode_request(service)))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK || is_error(response.headers()) {
            return Ok(false);
        }
        let collected = Limited::new(response.into_body(), LONGEST).collect().await?;
        let failed = collected.trailers().is_none_or(|trailers| !is_ok(trailers));
        Ok(!failed && decode_status(&collected.to_bytes()) == Some(SERVING))
    };
    // The connection future drives the exchange.
    tokio::select! {
        biased;
        is_serving = exchange => is_serving,
        ended = connection => Err(ended.map_or_else(Into::into, |()| "the connection was closed".into())),
    }
}

/// A HealthCheckRequest with its prefix.
fn encode_request(service: &str) -> Bytes {
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

/// The status in a HealthCheckResponse with its prefix; an absent field is 0. `None` if the bytes
/// are not such a message.
fn decode_status(framed: &[u8]) -> Option<u64> {
    let (prefix, mut message) = framed.split_at_checked(PREFIX)?;
    let (compressed, length) = prefix.split_first()?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    if *compressed != 0 || usize::try_from(length).ok()? != message.len() {
        return None;
    }
    let mut status = 0;
    while !message.is_empty() {
        let tag = take_varint(&mut message)?;
        // The last three bits are the wire type.
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

/// A response with only an error has its status in the head, without trailers.
fn is_error(headers: &HeaderMap) -> bool {
    headers.contains_key("grpc-status") && !is_ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_request_as_protobuf() {
        assert_eq!(encode_request("").as_ref(), [0, 0, 0, 0, 0]);
        assert_eq!(encode_request("ab").as_ref(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = encode_request(&"x".repeat(300));
        assert_eq!(&long[..8], [0, 0, 0, 1, 47, 0x0a, 0xac, 2]);
    }

    #[test]
    fn decodes_status_and_rejects_malformed_responses() {
        for (framed, expected) in [
            (&[0, 0, 0, 0, 2, 8, 1][..], Some(SERVING)),
            (&[0, 0, 0, 0, 2, 8, 2], Some(2)),
            (&[0, 0, 0, 0, 0], Some(0)),
            // Unknown fields are skipped.
            (&[0, 0, 0, 0, 6, 0x12, 2, 8, 9, 8, 1], Some(SERVING)),
            (&[0, 0, 0, 0, 3, 8, 1], None),
            (&[1, 0, 0, 0, 2, 8, 1], None),
            (&[0, 0, 0, 0, 1, 8], None),
            (&[0, 0, 0, 0, 2, 0x12, 9], None),
            (&[0, 0, 0, 0, 11, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255], None),
            (&[], None),
        ] {
            assert_eq!(decode_status(framed), expected, "{framed:?}");
        }
    }
}
