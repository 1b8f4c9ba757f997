//! UploadMemory: what the uploads of a connection keep in memory until they are sent on.
//!
//! h2 keeps each DATA frame as a slice of the buffer that it was read into, and has a place for it
//! in a list that never shrinks. So a frame of one byte may keep a whole buffer, and windows do not
//! bound that. Here the heads of the frames are read as they arrive. A frame costs the bytes that
//! the connection received since the one before it of its upload, at most a buffer: frames that
//! share a buffer cost it once.

use std::collections::{HashMap, VecDeque};
use std::mem;

use parking_lot::Mutex;

/// The client's preface (RFC 9113, 3.4), which is not a frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
/// A read buffer with a frame of 16 KiB and its head, as large as the allocator makes it.
const BUFFER: u16 = 20 << 10;
/// A place in h2's list of frames.
const PLACE: usize = 256;
/// Frames of an upload that were read last, and wait to be sent on.
const SENDING: usize = 2;
/// Uploads at a time that a connection keeps room for.
const KEPT_UPLOADS: usize = 16;

/// The uploads of a connection. The connection, its reader and its request bodies share it.
#[derive(Debug, Default)]
pub(crate) struct UploadMemory(Mutex<Uploads>);

#[derive(Debug, Default)]
struct Uploads {
    by_stream: HashMap<u32, Upload>,
    /// Streams with data that the server has not accepted yet.
    unaccepted: Vec<u32>,
    last_accepted: u32,
    /// Bytes that the connection has received: now, and at the last first frame of an upload.
    received: u64,
    received_at_first: u64,
    /// Bytes of buffers.
    buffers: usize,
    /// Frames that were not read.
    unread: usize,
    /// The most of them at a time.
    places: usize,
}

/// The frames of one upload, as bytes of buffers.
#[derive(Debug, Default)]
struct Upload {
    is_accepted: bool,
    /// Apart from the others, because most uploads have one frame.
    oldest: Option<u16>,
    newer: VecDeque<u16>,
    sending: [u16; SENDING],
    /// What the connection had received at the end of the last frame.
    received: Option<u64>,
}

/// Finds the heads of frames in the bytes of a connection.
#[derive(Debug)]
pub(crate) struct FrameHeads {
    /// Bytes up to the next head.
    skipped: usize,
    head: [u8; HEAD],
    filled: usize,
}

// === impl UploadMemory ===

impl UploadMemory {
    /// The connection received `bytes`.
    pub(crate) fn receive(&self, heads: &mut FrameHeads, bytes: &[u8]) {
        let mut uploads = self.0.lock();
        heads.read(bytes, |head| uploads.receive(head));
    }

    /// The server accepted a stream with an upload.
    pub(crate) fn accept(&self, stream: u32) {
        let mut uploads = self.0.lock();
        uploads.last_accepted = stream;
        uploads.by_stream.entry(stream).or_default().is_accepted = true;
    }

    /// The request body of a stream has read a frame.
    pub(crate) fn read(&self, stream: u32) {
        let mut uploads = self.0.lock();
        if let Some(sent) = uploads.by_stream.get_mut(&stream).and_then(Upload::read) {
            uploads.buffers -= usize::from(sent);
            uploads.unread -= 1;
        }
    }

    /// The request body of a stream was dropped.
    pub(crate) fn end(&self, stream: u32) {
        self.0.lock().end(stream);
    }

    /// Bytes that all uploads keep. Called after the server has accepted all streams that arrived:
    /// others will not be read.
    pub(crate) fn bytes(&self) -> usize {
        let mut uploads = self.0.lock();
        for stream in mem::take(&mut uploads.unaccepted) {
            if uploads.by_stream.get(&stream).is_some_and(|upload| !upload.is_accepted) {
                uploads.end(stream);
            }
        }
        uploads.buffers + uploads.places * PLACE
    }

    /// Bytes that one upload keeps.
    pub(crate) fn bytes_of(&self, stream: u32) -> usize {
        self.0.lock().by_stream.get(&stream).map_or(0, Upload::bytes)
    }
}

// === impl Uploads ===

impl Uploads {
    fn receive(&mut self, head: [u8; HEAD]) {
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.received += HEAD as u64 + u64::from(length);
        // h2 drops empty frames.
        if kind == DATA && (length > 0 || flags & END_STREAM != 0) {
            self.receive_data(u32::from_be_bytes(stream));
        }
    }

    fn receive_data(&mut self, stream: u32) {
        if !self.by_stream.contains_key(&stream) {
            // Nothing reads a stream that has ended.
            if stream <= self.last_accepted {
                return;
            }
            self.unaccepted.push(stream);
        }
        let upload = self.by_stream.entry(stream).or_default();
        // Uploads of one frame share buffers, too.
        let before =
            upload.received.unwrap_or_else(|| mem::replace(&mut self.received_at_first, self.received));
        upload.received = Some(self.received);
        let bytes = (self.received - before).saturating_mul(5) / 4;
        let bytes = u16::try_from(bytes).map_or(BUFFER, |bytes| bytes.min(BUFFER));
        upload.add(bytes);
        self.buffers += usize::from(bytes);
        self.unread += 1;
        self.places = self.places.max(self.unread);
    }

    fn end(&mut self, stream: u32) {
        let Some(upload) = self.by_stream.remove(&stream) else { return };
        self.buffers -= upload.bytes();
        self.unread -= upload.unread();
        if self.by_stream.is_empty() && self.by_stream.capacity() > KEPT_UPLOADS {
            self.by_stream.shrink_to(KEPT_UPLOADS / 2);
        }
    }
}

// === impl Upload ===

impl Upload {
    fn add(&mut self, bytes: u16) {
        match self.oldest {
            None => self.oldest = Some(bytes),
            Some(_) => self.newer.push_back(bytes),
        }
    }

    /// The oldest frame is read, and the bytes of one before it, which were sent on, are returned.
    fn read(&mut self) -> Option<u16> {
        let read = mem::replace(&mut self.oldest, self.newer.pop_front())?;
        let [last, sent] = self.sending;
        self.sending = [read, last];
        Some(sent)
    }

    fn unread(&self) -> usize {
        usize::from(self.oldest.is_some()) + self.newer.len()
    }

    fn bytes(&self) -> usize {
        self.oldest.iter().chain(&self.newer).chain(&self.sending).map(|bytes| usize::from(*bytes)).sum()
    }
}

// === impl FrameHeads ===

impl FrameHeads {
    /// Of a connection from its first byte on.
    pub(crate) fn new() -> Self {
        Self { skipped: PREFACE, head: [0; HEAD], filled: 0 }
    }

    fn read(&mut self, mut bytes: &[u8], mut receive: impl FnMut([u8; HEAD])) {
        loop {
            let Some(rest) = bytes.get(self.skipped..) else {
                self.skipped -= bytes.len();
                return;
            };
            self.skipped = 0;
            let missing = rest.len().min(HEAD - self.filled);
            let (head, rest) = rest.split_at(missing);
            if let Some(free) = self.head.get_mut(self.filled..self.filled + missing) {
                free.copy_from_slice(head);
            }
            self.filled += missing;
            if self.filled < HEAD {
                return;
            }
            receive(self.head);
            let [a, b, c, ..] = self.head;
            (self.skipped, self.filled) = (u32::from_be_bytes([0, a, b, c]) as usize, 0);
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = [&length[1..], &[kind, 0], &stream.to_be_bytes()].concat();
        frame.resize(HEAD + payload, 0);
        frame
    }

    /// A connection that has received its preface, and accepted stream 1.
    fn connection() -> (UploadMemory, FrameHeads) {
        let (memory, mut heads) = (UploadMemory::default(), FrameHeads::new());
        memory.receive(&mut heads, &[b'x'; PREFACE]);
        memory.accept(1);
        (memory, heads)
    }

    const PING: u8 = 6;

    #[test]
    fn finds_frames_in_reads_of_any_size() {
        for size in [1, 7, 9, 10, 1000] {
            let (memory, mut heads) = connection();
            let frames =
                [frame(DATA, 1, 100), frame(PING, 0, 8), frame(DATA, 1, 5), frame(DATA, 1, 0)].concat();
            frames.chunks(size).for_each(|bytes| memory.receive(&mut heads, bytes));
            assert_eq!(memory.bytes(), 109 * 5 / 4 + (17 + 14) * 5 / 4 + 2 * PLACE, "reads of {size}");
        }
    }

    #[test]
    fn small_frames_cost_the_buffers_that_they_keep() {
        let (memory, mut heads) = connection();
        // In one buffer.
        (0..100).for_each(|_| memory.receive(&mut heads, &frame(DATA, 1, 1)));
        assert_eq!(memory.bytes_of(1), 100 * (10 * 5 / 4));
        // Each in a buffer of its own, with data that was read.
        memory.accept(3);
        for _ in 0..100 {
            memory.receive(&mut heads, &frame(DATA, 3, 16384));
            memory.read(3);
            memory.receive(&mut heads, &frame(DATA, 1, 1));
        }
        assert!(memory.bytes_of(1) > 100 * 16384 && memory.bytes_of(3) <= SENDING * usize::from(BUFFER));
        memory.end(1);
        memory.end(3);
        assert_eq!(memory.bytes(), 200 * PLACE, "h2 keeps its places");
    }

    #[test]
    fn last_frames_that_were_read_cost_until_they_are_sent_on() {
        let (memory, mut heads) = connection();
        (0..4).for_each(|_| memory.receive(&mut heads, &frame(DATA, 1, 1000)));
        let each = 1009 * 5 / 4;
        for left in [4, 4, 3, 2] {
            memory.read(1);
            assert_eq!(memory.bytes_of(1), left * each);
        }
        memory.end(1);
        assert_eq!((memory.bytes_of(1), memory.bytes()), (0, 4 * PLACE));
    }

    #[test]
    fn data_of_streams_that_nothing_reads_costs_nothing() {
        let (memory, mut heads) = connection();
        memory.end(1);
        // Its body was dropped; 3 was reset before the server accepted 5.
        for stream in [1, 3, 5] {
            memory.receive(&mut heads, &frame(DATA, stream, 1000));
        }
        memory.accept(5);
        assert_eq!(memory.bytes(), memory.bytes_of(5) + 2 * PLACE);
        assert_eq!((memory.bytes_of(1), memory.bytes_of(3)), (0, 0));
    }
}
