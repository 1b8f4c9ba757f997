//! The end of a request's body: any difference between peers allows request smuggling.

use crate::case::{Case, case, ok};

/// The rows.
pub fn rows() -> Vec<Case> {
    [lengths(), bad_lengths(), codings(), bad_codings(), both(), chunks(), bad_chunks(), trailers()].concat()
}

fn lengths() -> Vec<Case> {
    vec![
        case("a body with a length is forwarded", "RFC 9112, 6.2")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("a length of 0 is forwarded", "RFC 9110, 8.6")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            .passes("POST / HTTP/1.1\ncontent-length: 0\nhost: a"),
        case("POST without length or coding has no body", "RFC 9112, 6.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("POST / HTTP/1.1\nhost: a"),
        case("equal duplicate lengths are merged", "RFC 9112, 6.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("zeros before a length are allowed", "RFC 9110, 8.6")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 0005\nhost: a\n\nhello"),
    ]
}

fn bad_lengths() -> Vec<Case> {
    let lengths = [
        ("two lengths that differ are rejected", "5\r\nContent-Length: 6"),
        ("a list of lengths is rejected", "5, 6"),
        ("a list of equal lengths is rejected", "5, 5"),
        ("a length with a plus is rejected", "+5"),
        ("a negative length is rejected", "-5"),
        ("a length with a space is rejected", "5 5"),
        ("a hexadecimal length is rejected", "0x5"),
        ("a fractional length is rejected", "5.0"),
        ("an empty length is rejected", ""),
        ("a length of letters is rejected", "five"),
        ("a length in quotes is rejected", "\"5\""),
        ("a length of wide digits is rejected", "\u{ff15}"),
        ("a length with a comma is rejected", "5,"),
        ("a length beyond 64 bits is rejected", "18446744073709551616"),
        ("a length of twenty-one digits is rejected", "100000000000000000000"),
    ];
    let row = |(name, length)| {
        case(name, "RFC 9112, 6.3")
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nhello"))
            .is_rejected_by_parser(400)
    };
    lengths.map(row).to_vec()
}

fn codings() -> Vec<Case> {
    let chunked = "POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello";
    let codings = [
        ("a chunked body stays chunked", "Transfer-Encoding: chunked"),
        ("codings are case-insensitive", "transfer-encoding: CHUNKED"),
        ("white space around a coding is removed", "Transfer-Encoding:\t chunked \t"),
    ];
    let row = |(name, coding)| {
        case(name, "RFC 9112, 6.1")
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
            .passes(chunked)
    };
    let mut rows = codings.map(row).to_vec();
    rows.push(
        case("a header with a name similar to a coding is forwarded", "RFC 9112, 6.1")
            .sends(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n",
            )
            .passes("POST / HTTP/1.1\ncontent-length: 3\nhost: a\ntransfer_encoding: chunked\n\n0\r\n"),
    );
    rows
}

fn bad_codings() -> Vec<Case> {
    let by_parser = [
        ("a body coding without chunked is rejected", "Transfer-Encoding: gzip"),
        ("coding identity is rejected", "Transfer-Encoding: identity"),
        ("chunked before another coding is rejected", "Transfer-Encoding: chunked, gzip"),
        ("identity after chunked is rejected", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
        ("a coding of another name is rejected", "Transfer-Encoding: xchunked"),
        ("a coding with a parameter is rejected", "Transfer-Encoding: chunked;q=1"),
        ("a coding in quotes is rejected", "Transfer-Encoding: \"chunked\""),
        ("an empty coding is rejected", "Transfer-Encoding:"),
        ("a coding with a comma after it is rejected", "Transfer-Encoding: chunked,"),
        ("a space before the colon does not hide a coding", "Transfer-Encoding : chunked"),
        ("a vertical tab does not hide a coding", "Transfer-Encoding: \x0bchunked"),
        ("a NUL does not hide a coding", "Transfer-Encoding: chunked\0"),
        ("a fold does not hide a coding", "Transfer-Encoding:\r\n chunked"),
        ("a fold before the header does not hide a coding", "X: y\r\n Transfer-Encoding: chunked"),
        ("a bare CR does not hide a coding", "X: y\rTransfer-Encoding: chunked"),
    ];
    let by_us = [
        ("an unsupported coding is rejected", "Transfer-Encoding: gzip, chunked"),
        (
            "an unsupported coding in a line of its own is rejected",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        ),
        ("chunked twice is rejected", "Transfer-Encoding: chunked, chunked"),
        ("chunked in two lines is rejected", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        ("identity before chunked is rejected", "Transfer-Encoding: identity, chunked"),
        ("a coding with a comma before it is rejected", "Transfer-Encoding: ,chunked"),
    ];
    let request = |coding| format!("POST / HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let parser = by_parser
        .map(|(name, coding)| case(name, "RFC 9112, 6.1").sends(request(coding)).is_rejected_by_parser(400));
    let us = by_us.map(|(name, coding)| case(name, "RFC 9112, 6.1").sends(request(coding)).is_rejected(501));
    let old = case("a coding in HTTP/1.0 is rejected", "RFC 9112, 6.1")
        .sends("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        .is_rejected_by_parser(400);
    [parser.to_vec(), us.to_vec(), vec![old]].concat()
}

fn both() -> Vec<Case> {
    let smuggled = "POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked";
    vec![
        case("a length before a coding is dropped, and the connection ends", "RFC 9112, 6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes(format!("{smuggled}\n\nhello"))
            .then_closes(),
        case("a length after a coding is dropped, and the connection ends", "RFC 9112, 6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes(format!("{smuggled}\n\nhello"))
            .then_closes(),
        case("bytes that a length would hide after chunks are not served", "RFC 9112, 11.2")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes(smuggled)
            .then_closes(),
        case("bytes that chunks would hide after a length are not served", "RFC 9112, 11.2")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1f\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n")
            .passes(format!("{smuggled}\n\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"))
            .then_closes(),
        case("a length between two codings is rejected", "RFC 9112, 6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n")
            .is_rejected_by_parser(400),
    ]
}

fn chunks() -> Vec<Case> {
    let bodies = [
        ("several chunks are forwarded as one body", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        ("sizes are in hex of either case", "5\r\nhello\r\n0\r\n\r\n"),
        ("zeros before a size are allowed", "0005\r\nhello\r\n000\r\n\r\n"),
        ("extensions are dropped", "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n"),
        ("white space before an extension is allowed", "5 ;a\r\nhello\r\n0\r\n\r\n"),
    ];
    let row = |(name, body)| {
        case(name, "RFC 9112, 7.1")
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"))
            .passes("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello")
    };
    let mut rows = bodies.map(row).to_vec();
    let long = "h".repeat(0xabc);
    rows.push(
        case("a long chunk size is accepted in upper and lower case", "RFC 9112, 7.1")
            .sends(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\naBC\r\n{long}\r\n0\r\n\r\n"
            ))
            .passes("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[2748 x h]"),
    );
    rows.push(
        case("a chunked body may be empty", "RFC 9112, 7.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .passes("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked"),
    );
    rows
}

/// Bodies stream, so the app may have received the head; the body must be visibly incomplete.
fn bad_chunks() -> Vec<Case> {
    let long_extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "e".repeat(20_000));
    let at_once = [
        ("a size beyond 64 bits is rejected", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        ("a negative size is rejected", "-5\r\nhello\r\n0\r\n\r\n"),
        ("a size with a plus is rejected", "+5\r\nhello\r\n0\r\n\r\n"),
        ("a size with 0x is rejected", "0x5\r\nhello\r\n0\r\n\r\n"),
        ("a size of other letters is rejected", "g\r\nhello\r\n0\r\n\r\n"),
        ("an empty size is rejected", "\r\nhello\r\n0\r\n\r\n"),
        ("a space before a size is rejected", " 5\r\nhello\r\n0\r\n\r\n"),
        ("two sizes are rejected", "5 5\r\nhello\r\n0\r\n\r\n"),
        ("a size with an underscore is rejected", "0_5\r\nhello\r\n0\r\n\r\n"),
        ("a size line that ends in a bare LF is rejected", "5\nhello\r\n0\r\n\r\n"),
        ("a size line that ends in a bare CR is rejected", "5\rhello\r\n0\r\n\r\n"),
        ("a bare LF in an extension is rejected", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
        ("an extension without end is rejected", long_extension.as_str()),
    ];
    let later = [
        ("a chunk longer than its size is rejected", "5\r\nhello!\r\n0\r\n\r\n"),
        ("a chunk that ends in a bare LF is rejected", "5\r\nhello\n0\r\n\r\n"),
        ("a chunk without a line end is rejected", "5\r\nhello0\r\n\r\n"),
        ("an invalid second size is rejected", "5\r\nhello\r\nx\r\n\r\n"),
        ("a bare LF after the last size is rejected", "5\r\nhello\r\n0\n\r\n"),
        ("a trailer with a space before the colon is rejected", "5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
        ("a trailer without a colon is rejected", "5\r\nhello\r\n0\r\nX\r\n\r\n"),
        ("a trailer with a NUL is rejected", "5\r\nhello\r\n0\r\nX: \0\r\n\r\n"),
    ];
    let request = |body| format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    let head = "POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked";
    let at_once = at_once.map(|(name, body)| {
        case(name, "RFC 9112, 7.1")
            .sends(request(body))
            .app_may_receive(format!("{head}\n\n[cut]"))
            .is_rejected(400)
    });
    let later = later.map(|(name, body)| {
        case(name, "RFC 9112, 7.1")
            .sends(request(body))
            .app_may_receive(format!("{head}\n\nhello[cut]"))
            .is_rejected(400)
    });
    [at_once.to_vec(), later.to_vec()].concat()
}

fn trailers() -> Vec<Case> {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    let observed = "POST / HTTP/1.1\nhost: a";
    vec![
        case("announced trailers are forwarded", "RFC 9110, 6.5")
            .sends(format!("{head}Trailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"))
            .passes(format!("{observed}\ntrailer: X-Sum\ntransfer-encoding: chunked\n\nhello\n\nx-sum: 1")),
        case("trailers that were not announced are dropped", "RFC 9110, 6.5.1")
            .sends(format!("{head}\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"))
            .passes(format!("{observed}\ntransfer-encoding: chunked\n\nhello")),
        case("a length among the trailers is dropped", "RFC 9110, 6.5.1")
            .sends(format!("{head}Trailer: Content-Length, X\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\nX: 1\r\n\r\n"))
            .passes(format!("{observed}\ntrailer: Content-Length, X\ntransfer-encoding: chunked\n\nhello\n\nx: 1")),
        case("Host and codings among the trailers are dropped", "RFC 9110, 6.5.1")
            .sends(format!("{head}Trailer: Host, Transfer-Encoding\r\n\r\n0\r\nHost: b\r\nTransfer-Encoding: gzip\r\n\r\n"))
            .app_receives(format!("{observed}\ntrailer: Host, Transfer-Encoding\ntransfer-encoding: chunked"))
            .gets(ok()),
        case("endless trailers are rejected", "RFC 6585, 5")
            .sends(format!("{head}\r\n0\r\nX: {}\r\n\r\n", "t".repeat(20_000)))
            .app_may_receive(format!("{observed}\ntransfer-encoding: chunked\n\n[cut]"))
            .is_rejected(400),
    ]
}
