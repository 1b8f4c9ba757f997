//! Socket queues in `/proc/net`.

use std::fs;

/// Unread bytes in the queues of all connections to a local port, at both ends.
pub(crate) fn queued_bytes(port: u16) -> u64 {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets = tables.iter().flat_map(|table| table.lines().skip(1));
    sockets.map(|socket| queued(socket, port)).sum()
}

/// Fields of a line: number, local address, remote address, state, queues. The queues of listening
/// sockets contain other values.
fn queued(socket: &str, port: u16) -> u64 {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = socket.split_whitespace().collect();
    let port = format!(":{port:04X}");
    if fields[3] == LISTEN || !fields[1..3].iter().any(|address| address.ends_with(&port)) {
        return 0;
    }
    fields[4].split(':').map(|queue| u64::from_str_radix(queue, 16).unwrap()).sum()
}
