//! Http2Peer: one end of an HTTP/2 connection. It sends the frames of a row and reads strictly.
//!
//! It acknowledges SETTINGS and PING and grants credit for received data without a step of the row.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, bail};
use loona_hpack::Decoder;
use tokio::net::TcpStream;

use super::frame::*;
use crate::wire::{Body, Wire, latin1};

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Http2Peer {
    wire: Wire<TcpStream>,
    decoder: DecoderBox,
    pub(crate) streams: HashMap<u32, StreamMessage>,
    /// The peer's initial window of each stream.
    initial_window: u64,
    /// Sum of the WINDOW_UPDATEs by stream; 0 is the connection.
    credit: HashMap<u32, u64>,
    goaway_code: Option<u32>,
    ignores_pings: bool,
}

/// What was received on a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamMessage {
    pub(crate) fields: Vec<(String, String)>,
    /// Interim responses (1xx) that were not expected yet.
    pub(crate) interim: VecDeque<Vec<(String, String)>>,
    pub(crate) body: Body,
    pub(crate) ended: bool,
    pub(crate) reset: Option<u32>,
}

struct DecoderBox(Decoder<'static>);

// === impl DecoderBox ===

impl std::fmt::Debug for DecoderBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

// === impl Http2Peer ===

impl Http2Peer {
    /// A client that has sent its preface and settings.
    pub(crate) async fn client(stream: TcpStream) -> Self {
        let mut peer = Self::of(Wire::new(stream));
        peer.wire.send(PREFACE).await;
        peer.send(&frame(SETTINGS, 0, 0, [])).await;
        peer
    }

    pub(crate) fn of(wire: Wire<TcpStream>) -> Self {
        Self {
            wire,
            decoder: DecoderBox(Decoder::new()),
            streams: HashMap::new(),
            initial_window: DEFAULT_WINDOW,
            credit: HashMap::new(),
            goaway_code: None,
            ignores_pings: false,
        }
    }

    pub(crate) fn stop_ping_replies(&mut self) {
        self.ignores_pings = true;
    }

    /// Closes the sending direction and reads to the end. Without that, frames of the peer that are
    /// in flight, such as an acknowledgement of SETTINGS, would turn the close into a reset, and a
    /// reset discards what the peer has not read yet.
    pub(crate) async fn close(&mut self) {
        self.wire.close_write().await;
        let _ = self.wire.take(usize::MAX).await;
    }

    pub(crate) async fn send(&mut self, frame: &Frame) {
        self.wire.send(&frame.bytes()).await;
    }

    /// Sends frames in one write, so that they arrive together.
    pub(crate) async fn send_all(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.wire.send(&bytes).await;
    }

    /// Sends a body and its end, and waits while the window is closed.
    pub(crate) async fn upload(&mut self, stream: u32, body: &[u8]) -> anyhow::Result<()> {
        let mut sent = 0;
        for part in body.chunks(MAX_FRAME) {
            sent += part.len() as u64;
            while self.allowance(stream) < sent {
                anyhow::ensure!(
                    self.read_frame().await?,
                    "the connection ended before there was credit for {sent} bytes"
                );
            }
            self.send(&data(stream, part)).await;
        }
        self.send(&data(stream, "").ending()).await;
        Ok(())
    }

    /// Bytes that the windows allow in total, if the stream is the only one of its connection.
    fn allowance(&self, stream: u32) -> u64 {
        let credit = |stream| self.credit.get(&stream).copied().unwrap_or_default();
        (self.initial_window + credit(stream)).min(DEFAULT_WINDOW + credit(0))
    }

    /// Reads until a stream has ended, by itself or by a reset.
    pub(crate) async fn message(&mut self, stream: u32) -> anyhow::Result<StreamMessage> {
        loop {
            if let Some(message) = self.streams.get(&stream)
                && (message.ended || message.reset.is_some())
            {
                return Ok(message.clone());
            }
            if !self.read_frame().await? {
                bail!("the connection ended (code {:?}) before stream {stream} did", self.goaway_code);
            }
        }
    }

    /// Reads until a stream is reset, behind its end or before, and returns the code.
    pub(crate) async fn reset_code(&mut self, stream: u32) -> anyhow::Result<u32> {
        loop {
            if let Some(code) = self.stream(stream).reset {
                return Ok(code);
            }
            let message = format!("{:?}", self.stream(stream));
            anyhow::ensure!(self.read_frame().await?, "the connection ended without a reset: {message}");
        }
    }

    /// Reads the next interim response of a stream, which has these fields.
    pub(crate) async fn expect_interim(
        &mut self,
        stream: u32,
        fields: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let received = loop {
            if let Some(received) = self.stream(stream).interim.pop_front() {
                break received;
            }
            let message = self.stream(stream).clone();
            anyhow::ensure!(!message.ended, "no interim response before {message:?}");
            anyhow::ensure!(self.read_frame().await?, "the connection ended: {message:?}");
        };
        let expected: Vec<_> =
            fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        anyhow::ensure!(received == expected, "received {received:?} instead of {expected:?}");
        Ok(())
    }

    /// Reads, and replies to PING, for this time.
    pub(crate) async fn read_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let ended = tokio::time::timeout(time, self.goaway_code()).await;
        anyhow::ensure!(ended.is_err(), "the connection ended: {ended:?}");
        Ok(())
    }

    /// Reads to the end of the connection and returns the code of its GOAWAY.
    pub(crate) async fn goaway_code(&mut self) -> anyhow::Result<Option<u32>> {
        while self.read_frame().await? {}
        Ok(self.goaway_code)
    }

    /// Reads one frame; false at the end.
    pub(crate) async fn read_frame(&mut self) -> anyhow::Result<bool> {
        let Some(frame) = self.frame().await? else { return Ok(false) };
        match frame.kind {
            HEADERS => self.on_headers(frame).await?,
            DATA => self.on_data(&frame).await,
            RST_STREAM => self.stream(frame.stream).reset = Some(number(&frame.payload)),
            SETTINGS if frame.flags & ACK == 0 => self.on_settings(&frame).await,
            WINDOW_UPDATE => {
                *self.credit.entry(frame.stream).or_default() += u64::from(number(&frame.payload));
            }
            PING if frame.flags & ACK == 0 && !self.ignores_pings => {
                self.send(&self::frame(PING, ACK, 0, frame.payload)).await
            }
            GOAWAY => self.goaway_code = Some(number(frame.payload.get(4..).unwrap_or_default())),
            _ => {}
        }
        Ok(true)
    }

    async fn on_settings(&mut self, frame: &Frame) {
        const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
        for setting in frame.payload.chunks(6) {
            if let Some(value) = setting.strip_prefix(&INITIAL_WINDOW_SIZE) {
                self.initial_window = number(value).into();
            }
        }
        self.send(&self::frame(SETTINGS, ACK, 0, [])).await;
    }

    async fn on_headers(&mut self, first: Frame) -> anyhow::Result<()> {
        let (stream, ends) = (first.stream, first.flags & END_STREAM != 0);
        let mut whole = first.flags & END_HEADERS != 0;
        let mut block = first.payload;
        while !whole {
            let more = self.frame().await?.context("a header block without end")?;
            anyhow::ensure!(more.kind == CONTINUATION && more.stream == stream, "no CONTINUATION: {more:?}");
            whole = more.flags & END_HEADERS != 0;
            block.extend(more.payload);
        }
        let fields = self.decoder.0.decode(&block).map_err(|error| anyhow::anyhow!("HPACK: {error:?}"))?;
        let fields = fields.iter().map(|(name, value)| (latin1(name), latin1(value))).collect::<Vec<_>>();
        let informational = fields.iter().any(|(name, value)| name == ":status" && value.starts_with('1'));
        let message = self.stream(stream);
        if informational {
            message.interim.push_back(fields);
        } else if message.fields.is_empty() {
            message.fields = fields;
        } else {
            message.body.trailers = fields;
        }
        message.ended |= ends;
        Ok(())
    }

    async fn on_data(&mut self, frame: &Frame) {
        let message = self.stream(frame.stream);
        message.body.bytes.extend(&frame.payload);
        message.ended |= frame.flags & END_STREAM != 0;
        let ended = message.ended;
        let length = u32::try_from(frame.payload.len()).unwrap_or(u32::MAX);
        if length > 0 {
            self.send(&window_update(0, length)).await;
        }
        if length > 0 && !ended {
            self.send(&window_update(frame.stream, length)).await;
        }
    }

    fn stream(&mut self, stream: u32) -> &mut StreamMessage {
        self.streams.entry(stream).or_default()
    }

    async fn frame(&mut self) -> anyhow::Result<Option<Frame>> {
        let head = self.wire.take(9).await;
        let [a, b, c, kind, flags, stream @ ..] = head.as_slice() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c]))?;
        anyhow::ensure!(length <= MAX_FRAME, "a frame of {length} bytes");
        anyhow::ensure!(flags & PADDED == 0 || *kind != DATA, "padded data is not read here");
        let (kind, flags, stream) = (*kind, *flags, number(stream) & 0x7fff_ffff);
        let payload = self.wire.take(length).await;
        if payload.len() < length {
            return Ok(None);
        }
        Ok(Some(Frame { kind, flags, stream, payload }))
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| (number << 8) | u32::from(*byte))
}
