//! HTTP/2 as frames: rows of the table, and a peer that sends whatever a row says and reads what comes.
//!
//! Header blocks are written as literals, so that anything can stand in them. Answers to SETTINGS and PING, and the credit
//! for what was received, are sent without a row saying so.

use std::collections::HashMap;

use anyhow::{Context, bail};
use loona_hpack::Decoder;
use tokio::net::TcpStream;

use crate::app::{Shared, Sight};
use crate::case::{After, Answer, Seen, seen};
use crate::wire::{Body, Wire, latin1};

/// What a client begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Error codes (RFC 9113, 7).
pub mod code {
    #![allow(missing_docs, reason = "they have the RFC's names")]
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// What may be sent before anything is said about it (RFC 9113, 6.9.2).
const DEFAULT_WINDOW: u64 = 65_535;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// Bounds of what a peer of ours reads; the proxies' own frames stay far below.
const MAX_FRAME: usize = 1 << 14;

/// A frame, right or wrong.
#[derive(Clone, Debug)]
pub struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Case {
    /// A sentence that is true of both proxies.
    pub name: &'static str,
    /// Where it is written.
    pub source: &'static str,
    /// What the caller does after the preface and its settings.
    pub caller: Vec<Step>,
    /// What the app does on the first connection that brings it anything.
    pub app: Vec<Act>,
    /// The requests that the app sees, in order.
    pub sees: Vec<Seen>,
    /// A request that it sees or does not, depending on how early the proxy gives it up.
    pub may_see: Option<String>,
    /// What becomes of the caller's connection.
    pub after: After,
    /// How many requests reach the app, and which, is left open.
    pub whatever: bool,
    /// The proxy gives callers next to no time for their heads.
    pub hurry: bool,
}

/// Something the caller does or awaits.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends frames.
    Sends(Vec<Frame>),
    /// Sends a stream's body and its end, as it is given credit.
    Uploads(u32, Vec<u8>),
    /// Gets a response on a stream.
    Gets(u32, Answer),
    /// A stream is reset with this code.
    IsReset(u32, u32),
    /// A stream ends before its response does, by whatever code.
    IsCut(u32),
    /// A stream is refused with this code: reset, or the connection with it (RFC 9113, 5.4.1 allows that).
    IsRefused(u32, u32),
    /// The connection is given up with one of these codes.
    IsGivenUp(Vec<u32>),
    /// No PING is answered from now on.
    TurnsDeaf,
    /// Waits until the proxy has taken notice of all that happened on its connections.
    Settles,
    /// Waits until the app has seen so many requests.
    AwaitsApp(usize),
}

/// Something the app does on a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Reads a request with its body.
    Reads,
    /// Reads the head of a request.
    ReadsHead,
    /// Sends frames; stream 1 stands for that of the last request.
    Sends(Vec<Frame>),
    /// Reads nothing more, and so gives no more credit.
    Stalls,
    /// Closes the connection.
    Closes,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    wire: Wire<TcpStream>,
    decoder: DecoderBox,
    streams: HashMap<u32, Message>,
    /// What may be sent on each stream from its beginning.
    initial_window: u64,
    /// What may be sent beyond that, by stream; 0 is the connection.
    credit: HashMap<u32, u64>,
    given_up: Option<u32>,
    deaf: bool,
}

/// What has come on a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) ended: bool,
    pub(crate) reset: Option<u32>,
}

struct DecoderBox(Decoder<'static>);

/// A row, yet without content.
pub fn case(name: &'static str, source: &'static str) -> Case {
    let (caller, app, sees) = (Vec::new(), Vec::new(), Vec::new());
    Case {
        name,
        source,
        caller,
        app,
        sees,
        may_see: None,
        after: After::StaysOpen,
        whatever: false,
        hurry: false,
    }
}

/// HEADERS with these fields, in this order.
pub fn headers(stream: u32, fields: &[(&str, &str)]) -> Frame {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    block(stream, &fields)
}

/// A header's name and value, as they are sent.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// HEADERS whose fields need not be text.
pub fn block(stream: u32, fields: &[Field<'_>]) -> Frame {
    let mut payload = Vec::new();
    for (name, value) in fields {
        payload.push(0);
        literal(&mut payload, name);
        literal(&mut payload, value);
    }
    Frame { kind: HEADERS, flags: END_HEADERS, stream, payload }
}

/// A well-formed request's HEADERS, with more fields.
pub fn request(stream: u32, method: &str, path: &str, more: &[(&str, &str)]) -> Frame {
    let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
    fields.extend(more);
    headers(stream, &fields)
}

/// A whole GET.
pub fn get(stream: u32, path: &str) -> Frame {
    request(stream, "GET", path, &[]).ending()
}

/// DATA.
pub fn data(stream: u32, bytes: impl AsRef<[u8]>) -> Frame {
    frame(DATA, 0, stream, bytes)
}

/// RST_STREAM.
pub fn reset(stream: u32, code: u32) -> Frame {
    frame(RST_STREAM, 0, stream, code.to_be_bytes())
}

/// GOAWAY that has seen streams up to `last`.
pub fn goaway(last: u32, code: u32) -> Frame {
    frame(GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// SETTINGS with one value.
pub fn setting(identifier: u16, value: u32) -> Frame {
    frame(SETTINGS, 0, 0, [identifier.to_be_bytes().as_slice(), &value.to_be_bytes()].concat())
}

/// WINDOW_UPDATE.
pub fn window_update(stream: u32, by: u32) -> Frame {
    frame(WINDOW_UPDATE, 0, stream, by.to_be_bytes())
}

/// CONTINUATION with part of a header block.
pub fn continuation(stream: u32, part: impl AsRef<[u8]>) -> Frame {
    frame(CONTINUATION, 0, stream, part)
}

/// Any frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Frame {
    Frame { kind, flags, stream, payload: payload.as_ref().to_vec() }
}

// === impl Frame ===

impl Frame {
    /// With END_STREAM.
    pub fn ending(mut self) -> Self {
        self.flags |= END_STREAM;
        self
    }

    /// Without END_HEADERS, and with only the first `length` bytes of its block; the rest in CONTINUATIONs of that size.
    pub fn split(mut self, length: usize) -> Vec<Self> {
        let rest = self.payload.split_off(length.min(self.payload.len()));
        self.flags &= !END_HEADERS;
        let stream = self.stream;
        let mut frames = vec![self];
        frames.extend(rest.chunks(length).map(|part| continuation(stream, part)));
        if let Some(last) = frames.last_mut() {
            last.flags |= END_HEADERS;
        }
        frames
    }

    fn on(mut self, stream: u32) -> Self {
        if self.stream == 1 {
            self.stream = stream;
        }
        self
    }

    /// As it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = length.iter().skip(1).copied().collect::<Vec<_>>();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

// === impl Case ===

impl Case {
    /// The caller sends.
    pub fn sends(self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.step(Step::Sends(frames.into_iter().collect()))
    }

    /// The caller sends the rest of a stream, as it is given credit.
    pub fn uploads(self, stream: u32, body: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Uploads(stream, body.into()))
    }

    /// The caller gets a response.
    pub fn gets(self, stream: u32, answer: Answer) -> Self {
        self.step(Step::Gets(stream, answer))
    }

    /// A stream is reset, and the connection goes on.
    pub fn is_reset(self, stream: u32, code: u32) -> Self {
        self.step(Step::IsReset(stream, code))
    }

    /// A stream is refused as malformed; whether the connection goes on is left open.
    pub fn is_malformed(self, stream: u32) -> Self {
        self.is_refused(stream, code::PROTOCOL_ERROR)
    }

    /// A stream is refused; whether the connection goes on is left open.
    pub fn is_refused(self, stream: u32, code: u32) -> Self {
        Self { after: After::Over, ..self.step(Step::IsRefused(stream, code)) }
    }

    /// The connection is given up and closed.
    pub fn is_given_up(self, code: u32) -> Self {
        // The code is for people; that the connection ends is what counts.
        let codes = vec![code, code::PROTOCOL_ERROR];
        Self { after: After::Closes, ..self.step(Step::IsGivenUp(codes)) }
    }

    /// The caller does something else.
    pub fn step(mut self, step: Step) -> Self {
        self.caller.push(step);
        self
    }

    /// The app does.
    pub fn app(mut self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.app.extend(acts);
        self
    }

    /// The app reads a request and sends frames; stream 1 stands for the request's.
    pub fn app_answers(self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.app([Act::Reads, Act::Sends(frames.into_iter().collect())])
    }

    /// The app sees this request.
    pub fn app_sees(mut self, text: impl Into<String>) -> Self {
        self.sees.push(seen(text));
        self
    }

    /// The app may see this much of a request, or nothing at all.
    pub fn app_may_see(self, text: impl Into<String>) -> Self {
        Self { may_see: Some(text.into()), ..self }
    }

    /// The app sees this request.
    pub fn app_sees_just(mut self, seen: Seen) -> Self {
        self.sees.push(seen);
        self
    }

    /// The connection is closed afterwards.
    pub fn then_closes(self) -> Self {
        Self { after: After::Closes, ..self }
    }

    /// The app may see anything but what is no HTTP.
    pub fn sees_whatever(self) -> Self {
        Self { whatever: true, ..self }
    }

    /// The connection is none of HTTP afterwards.
    pub fn then_is_over(self) -> Self {
        Self { after: After::Over, ..self }
    }

    /// With a proxy that gives callers next to no time for their heads.
    pub fn in_a_hurry(self) -> Self {
        Self { hurry: true, ..self }
    }
}

// === impl DecoderBox ===

impl std::fmt::Debug for DecoderBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

// === impl Peer ===

impl Peer {
    /// A caller; its preface and settings are sent.
    pub(crate) async fn caller(stream: TcpStream) -> Self {
        let mut peer = Self::of(Wire::new(stream));
        peer.wire.send(PREFACE).await;
        peer.send(&frame(SETTINGS, 0, 0, [])).await;
        peer
    }

    fn of(wire: Wire<TcpStream>) -> Self {
        Self {
            wire,
            decoder: DecoderBox(Decoder::new()),
            streams: HashMap::new(),
            initial_window: DEFAULT_WINDOW,
            credit: HashMap::new(),
            given_up: None,
            deaf: false,
        }
    }

    pub(crate) fn turn_deaf(&mut self) {
        self.deaf = true;
    }

    pub(crate) async fn send(&mut self, frame: &Frame) {
        self.wire.send(&frame.bytes()).await;
    }

    /// Many at once, so that they arrive together.
    pub(crate) async fn send_all(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.wire.send(&bytes).await;
    }

    /// Sends a body and its end, waiting for credit where there is none.
    pub(crate) async fn upload(&mut self, stream: u32, body: &[u8]) -> anyhow::Result<()> {
        let mut sent = 0;
        for part in body.chunks(MAX_FRAME) {
            sent += part.len() as u64;
            while self.allowance(stream) < sent {
                anyhow::ensure!(
                    self.turn().await?,
                    "the connection ended before there was credit for {sent} bytes"
                );
            }
            self.send(&data(stream, part)).await;
        }
        self.send(&data(stream, "").ending()).await;
        Ok(())
    }

    /// How long the body of a stream may be by now, if it is the only one on its connection.
    fn allowance(&self, stream: u32) -> u64 {
        let credit = |stream| self.credit.get(&stream).copied().unwrap_or_default();
        (self.initial_window + credit(stream)).min(DEFAULT_WINDOW + credit(0))
    }

    /// Reads until a stream has ended, by itself or by a reset.
    pub(crate) async fn message(&mut self, stream: u32) -> anyhow::Result<Message> {
        loop {
            if let Some(message) = self.streams.get(&stream)
                && (message.ended || message.reset.is_some())
            {
                return Ok(message.clone());
            }
            if !self.turn().await? {
                bail!("the connection ended (code {:?}) before stream {stream} did", self.given_up);
            }
        }
    }

    /// The code with which the connection was given up. Reads to its end.
    pub(crate) async fn given_up(&mut self) -> anyhow::Result<Option<u32>> {
        while self.turn().await? {}
        Ok(self.given_up)
    }

    /// Reads one frame; false at the end.
    async fn turn(&mut self) -> anyhow::Result<bool> {
        let Some(frame) = self.frame().await? else { return Ok(false) };
        match frame.kind {
            HEADERS => self.on_headers(frame).await?,
            DATA => self.on_data(&frame).await,
            RST_STREAM => self.stream(frame.stream).reset = Some(number(&frame.payload)),
            SETTINGS if frame.flags & ACK == 0 => self.on_settings(&frame).await,
            WINDOW_UPDATE => {
                *self.credit.entry(frame.stream).or_default() += u64::from(number(&frame.payload));
            }
            PING if frame.flags & ACK == 0 && !self.deaf => {
                self.send(&self::frame(PING, ACK, 0, frame.payload)).await
            }
            GOAWAY => self.given_up = Some(number(frame.payload.get(4..).unwrap_or_default())),
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
        if message.fields.is_empty() {
            message.fields = fields;
        } else if !informational {
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

    fn stream(&mut self, stream: u32) -> &mut Message {
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

/// The app's side of a connection.
pub(crate) async fn app(mut wire: Wire<TcpStream>, shared: &Shared) {
    let _ = wire.take(PREFACE.len()).await;
    let mut peer = Peer::of(wire);
    peer.send(&frame(SETTINGS, 0, 0, [])).await;
    if let Err(error) = act(&mut peer, shared).await {
        let broken = Sight { text: format!("[{error:#}]"), fields: Vec::new() };
        shared.saw(broken);
    }
}

async fn act(peer: &mut Peer, shared: &Shared) -> anyhow::Result<()> {
    let mut current = 0;
    for act in shared.http2_acts() {
        match act {
            Act::Reads | Act::ReadsHead => {
                let whole = matches!(act, Act::Reads);
                let Some(stream) = peer.request(shared, whole).await? else { return Ok(()) };
                current = stream;
            }
            Act::Sends(frames) => {
                let frames: Vec<_> = frames.into_iter().map(|frame| frame.on(current)).collect();
                peer.send_all(&frames).await;
            }
            Act::Stalls => std::future::pending().await,
            Act::Closes => return Ok(()),
        }
    }
    while let Some(stream) = peer.request(shared, true).await? {
        let frames = [headers(stream, &[(":status", "200")]), data(stream, "ok").ending()];
        peer.send_all(&frames).await;
    }
    Ok(())
}

impl Peer {
    /// The next request that is whole, or has a head.
    async fn request(&mut self, shared: &Shared, whole: bool) -> anyhow::Result<Option<u32>> {
        loop {
            let come = |message: &Message| !message.fields.is_empty() && (message.ended || !whole);
            let over = |message: &Message| come(message) || message.reset.is_some();
            let next =
                self.streams.iter().filter(|(_, message)| over(message)).map(|(stream, _)| *stream).min();
            if let Some(stream) = next
                && let Some(message) = self.streams.remove(&stream)
            {
                if message.fields.is_empty() {
                    // Nothing but the reset of a request that was answered before it had ended.
                    continue;
                }
                shared.saw(sight(&message));
                if message.reset.is_none() {
                    return Ok(Some(stream));
                }
                continue;
            }
            if !self.turn().await? {
                return Ok(None);
            }
        }
    }
}

/// A request in the form of the rows: like HTTP/1, with the authority as a header.
fn sight(message: &Message) -> Sight {
    let pseudo = |name: &str| {
        let field = message.fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let start = format!("{} {} HTTP/2", pseudo(":method"), pseudo(":path"));
    // Some client libraries add this where there is no body, which says the same.
    let no_body = |(name, value): &&(String, String)| name != "content-length" || value != "0";
    let fields: Vec<_> = message
        .fields
        .iter()
        .filter(no_body)
        .filter(|(name, _)| !matches!(name.as_str(), ":method" | ":path" | ":scheme"))
        .cloned()
        .collect();
    let mut body = message.body.clone();
    body.cut = message.reset.is_some();
    Sight::new(&start, &fields, &body)
}

fn literal(block: &mut Vec<u8>, text: &[u8]) {
    // An integer with a prefix of 7 bits (RFC 7541, 5.1), and no Huffman code.
    let mut rest = text.len();
    if rest < 127 {
        block.push(u8::try_from(rest).unwrap_or_default());
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.push(u8::try_from(rest % 128).unwrap_or_default() | 128);
            rest /= 128;
        }
        block.push(u8::try_from(rest).unwrap_or_default());
    }
    block.extend(text);
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| (number << 8) | u32::from(*byte))
}
