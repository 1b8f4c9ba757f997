//! Delays packets: the kernel queues them (target NFQUEUE of iptables), and this process releases
//! each after the same time.
//!
//! It is a process of its own, started inside of the cluster's network namespace. The messages are
//! those of `linux/netfilter/nfnetlink_queue.h`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use tokio::time::Instant;

/// Number of the queue.
pub(super) const QUEUE: u16 = 7;

/// Packets that wait, at most: two seconds of 30,000 a second.
const MAX_PACKETS: u32 = 60_000;
const RECEIVE_BUFFER: usize = 16 << 20;

/// `NFNL_SUBSYS_QUEUE`, the high byte of the type of a message.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const CONFIGURE: u16 = SUBSYSTEM | 2;
const RELEASE_UP_TO: u16 = SUBSYSTEM | 3;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// Of the kernel's header and of nfnetlink's behind it.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;

/// Attributes: `NFQA_CFG_CMD`, `NFQA_CFG_PARAMS`, `NFQA_CFG_QUEUE_MAXLEN`, `NFQA_VERDICT_HDR`,
/// `NFQA_PACKET_HDR`.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const MAX_LENGTH: u16 = 3;
const VERDICT: u16 = 2;
const PACKET_HEADER: u16 = 1;
/// `NFQNL_CFG_CMD_BIND`.
const BIND: [u8; 4] = [1, 0, 0, 0];
/// No byte of the packets, `NFQNL_COPY_META`.
const NO_BYTES: [u8; 5] = [0, 0, 0, 0, 1];
const ACCEPT: u32 = 1;

/// Delays all packets of the queue, until the process is killed.
///
/// # Errors
/// When the kernel has no packet queues, or another process has this one.
pub(crate) fn run(delay: Duration) -> Result<Infallible> {
    let socket = queue()?;
    println!("ready");
    let (mut waiting, mut buffer) = (VecDeque::new(), vec![0; 64 << 10]);
    loop {
        let next =
            waiting.front().map(|(due, _): &(Instant, u32)| due.saturating_duration_since(Instant::now()));
        if is_readable(&socket, next)? {
            let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
            let due = Instant::now() + delay;
            let received = buffer.get(..length).unwrap_or_default();
            waiting.extend(packets(received).map(|packet| (due, packet)));
        }
        let now = Instant::now();
        let mut last = None;
        while let Some((_, packet)) = waiting.pop_front_if(|(due, _)| *due <= now) {
            last = Some(packet);
        }
        if let Some(packet) = last {
            send(&socket, &release(packet), SendFlags::empty())?;
        }
    }
}

fn queue() -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)?;
    let settings = [(COMMAND, &BIND[..]), (PARAMETERS, &NO_BYTES), (MAX_LENGTH, &MAX_PACKETS.to_be_bytes())];
    for (kind, value) in settings {
        send(&socket, &message(CONFIGURE, kind, value), SendFlags::empty())?;
    }
    Ok(socket)
}

fn is_readable(socket: &OwnedFd, within: Option<Duration>) -> io::Result<bool> {
    let timeout = within.and_then(|within| Timespec::try_from(within).ok());
    let readable = poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref())?;
    Ok(readable > 0)
}

/// Releases this packet and all before it.
fn release(packet: u32) -> Vec<u8> {
    let verdict = [ACCEPT.to_be_bytes(), packet.to_be_bytes()].concat();
    message(RELEASE_UP_TO, VERDICT, &verdict)
}

/// A message with one attribute. Lengths are padded to four bytes.
fn message(kind: u16, attribute: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut attributes = [length.to_ne_bytes(), attribute.to_ne_bytes()].concat();
    attributes.extend_from_slice(value);
    attributes.resize(attributes.len().next_multiple_of(4), 0);
    let total = u32::try_from(HEADERS + attributes.len()).unwrap_or(u32::MAX);
    let mut message = total.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // Sequence number and port.
    message.extend([0; 8]);
    // Any family, version 0.
    message.extend([0; 2]);
    message.extend(QUEUE.to_be_bytes());
    message.extend(attributes);
    message
}

/// The numbers of the packets in what was received.
fn packets(mut received: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        loop {
            let length = u32::from_ne_bytes(received.get(..4)?.try_into().ok()?) as usize;
            let message = received.get(..length).filter(|message| message.len() >= HEADER)?;
            received = received.get(length.next_multiple_of(4)..).unwrap_or_default();
            if let Some(packet) = packet(message) {
                return Some(packet);
            }
        }
    })
}

fn packet(message: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let mut attributes = message.get(HEADERS..).filter(|_| kind == PACKET)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        if kind == PACKET_HEADER {
            return Some(u32::from_be_bytes(attributes.get(4..8)?.try_into().ok()?));
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_numbers_of_packets_and_skips_other_messages() {
        let of_packet = |number: u32| message(PACKET, PACKET_HEADER, &number.to_be_bytes());
        let received = [of_packet(7), message(CONFIGURE, PACKET_HEADER, &[0; 4]), of_packet(9)].concat();
        assert_eq!(packets(&received).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(packets(&received[..received.len() - 1]).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn release_has_the_layout_of_the_kernel() {
        let expected = [
            &32_u32.to_ne_bytes()[..],
            &[3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 7],
            &[12, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 5],
        ];
        assert_eq!(release(5), expected.concat());
    }
}
