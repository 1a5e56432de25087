//! Bytes that no client library sends: lengths without bytes, unnegotiated compression, endless headers,
//! floods of frames. Each ends with a status or a closed connection; memory does not grow, and others get
//! their answers.

use std::{
    io::{self, ErrorKind, Write as _},
    net::TcpStream,
    time::Duration,
};

use antares_proto::v1::Tier;
use antares_tests::guests;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tempfile::TempDir;
use tonic::{Code, body::Body};
use tower::{Service as _, ServiceExt as _};

use crate::{
    client::{Client, exit_code, inline},
    identity::plain,
    server::{Server, started},
};

/// Allowed growth of the server.
const GROWTH_BYTES_MAX: u64 = 48 << 20;
const EXECUTE: &str = "/antares.v1.RunnerService/Execute";

/// Sends `body` unchanged with these headers; returns the HTTP status, and gRPC's if there is one.
async fn send(
    server: &Server,
    headers: &[(&str, Bytes)],
    body: Bytes,
) -> Result<(u16, Option<Code>), String> {
    let mut channel = plain(server).await;
    let mut request = http::Request::post(EXECUTE).header("te", "trailers");
    request = request.header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, http::HeaderValue::from_maybe_shared(value.clone()).unwrap());
    }
    let request = request.body(Body::new(Full::new(body))).unwrap();
    let answer = channel.ready().await.map_err(|error| error.to_string())?.call(request).await;
    let answer = answer.map_err(|error| format!("{error:?}"))?;
    let code = |headers: &http::HeaderMap| {
        headers.get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()))
    };
    let (head, body) = answer.into_parts();
    let whole = body.collect().await.map_err(|error| format!("{error:?}"))?;
    let trailers = whole.trailers().and_then(code);
    Ok((head.status.as_u16(), code(&head.headers).or(trailers)))
}

/// A name, headers, a body, and the status.
type Case<'a> = (&'a str, &'a [(&'a str, Bytes)], Bytes, Code);

/// A gRPC message with its true length.
fn whole(flag: u8, content: &[u8]) -> Bytes {
    message(flag, u32::try_from(content.len()).unwrap(), content)
}

/// A gRPC message with a declared length.
fn message(flag: u8, length: u32, content: &[u8]) -> Bytes {
    [&[flag][..], &length.to_be_bytes(), content].concat().into()
}

/// Asserts that the server works for others, and has not grown.
async fn assert_well(server: &Server, before: u64, what: &str) {
    let elf = guests::bytes("exit-imc").unwrap();
    let answer = Client::connect(server).await.execute(inline(&elf, &["9"], Tier::Auto)).await.unwrap();
    assert_eq!(exit_code(&answer), Some(9), "after {what}");
    let grown = server.memory_high().saturating_sub(before);
    assert!(grown < GROWTH_BYTES_MAX, "{what}: {grown} bytes");
}

/// A server that has answered, and its peak memory.
async fn well() -> (TempDir, Server, u64) {
    let (data, server) = started("");
    assert_well(&server, u64::MAX, "the start").await;
    let before = server.memory_high();
    (data, server, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_lie_about_themselves_have_a_status() {
    let (_data, server, before) = well().await;
    let gzip = [("grpc-encoding", Bytes::from_static(b"gzip"))];
    let unknown = [("grpc-encoding", Bytes::from_static(b"snappy"))];
    // A gzip member of a thousand zeros, enough to show that the server does not unpack it.
    let packed: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0x63, 0x60, 0x18, 5, 0xa3, 0x60, 0xa4, 3, 0];
    let cases: [Case<'_>; 7] = [
        ("2 GiB announced, nothing sent", &[], message(0, 0x7fff_ffff, &[]), Code::ResourceExhausted),
        ("4 GiB announced, nothing sent", &[], message(0, u32::MAX, &[]), Code::ResourceExhausted),
        ("one byte over the limit", &[], message(0, (20 << 20) + 1, &[0]), Code::ResourceExhausted),
        ("packed without saying how", &[], whole(1, packed), Code::InvalidArgument),
        ("packed as gzip, which nobody offered", &gzip, whole(1, packed), Code::Unimplemented),
        ("packed in an unknown way", &unknown, message(1, 1, &[0]), Code::Unimplemented),
        ("a flag that there is not", &[], message(7, 1, &[0]), Code::InvalidArgument),
    ];
    for (what, headers, body, code) in cases {
        assert_eq!(send(&server, headers, body).await, Ok((200, Some(code))), "{what}");
        assert_well(&server, before, what).await;
    }
    // Bytes that are not one message.
    let elf = guests::bytes("exit-imc").unwrap();
    let call = whole(0, &prost::Message::encode_to_vec(&inline(&elf, &["3"], Tier::Auto)));
    let twice = [call.clone(), call].concat().into();
    for body in
        [message(0, 4, &[0xff; 4]), message(0, 64, &[0x0a; 64]), message(0, 5, &[0]), Bytes::new(), twice]
    {
        assert_eq!(send(&server, &[], body).await, Ok((200, Some(Code::InvalidArgument))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_bounded_and_wrong_ones_have_a_status() {
    let (_data, server, before) = well().await;
    let elf = guests::bytes("exit-imc").unwrap();
    let content = prost::Message::encode_to_vec(&inline(&elf, &["3"], Tier::Auto));
    let body = || whole(0, &content);
    let long = vec![("x-long", Bytes::from(vec![b'x'; 1 << 20]))];
    let names: Vec<String> = (0..10_000).map(|index| format!("x-{index}")).collect();
    let many = names.iter().map(|name| (name.as_str(), Bytes::from_static(b"y"))).collect();
    for (what, headers) in [("a header of 1 MiB", long), ("10,000 headers", many)] {
        assert_ne!(send(&server, &headers, body()).await, Ok((200, Some(Code::Ok))), "{what}");
        assert_well(&server, before, what).await;
    }
    for (name, value, code) in [
        ("antares-tenant", &b"\xff\xfe"[..], Code::InvalidArgument),
        ("antares-tenant", b"a/../b", Code::InvalidArgument),
        ("traceparent", b"\xff", Code::Ok),
        ("grpc-timeout", b"99999999H", Code::Ok),
    ] {
        let answer = send(&server, &[(name, Bytes::copy_from_slice(value))], body()).await;
        assert_eq!(answer, Ok((200, Some(code))), "{name} {value:?}");
    }
    // A call without time may succeed if it takes none; the client obeys the header too.
    let answer = send(&server, &[("grpc-timeout", Bytes::from_static(b"0n"))], body()).await;
    let is_over = matches!(&answer, Err(error) if error.contains("TimeoutExpired"));
    let is_answered = matches!(answer, Ok((200, Some(Code::Ok | Code::DeadlineExceeded))));
    assert!(is_over || is_answered, "{answer:?}");
    // An invalid timeout is refused or ignored; it ends no process.
    for value in [&b"soon"[..], b"-1S", b"123456789S", b"", b"1\xff"] {
        let answer = send(&server, &[("grpc-timeout", Bytes::copy_from_slice(value))], body()).await;
        assert!(matches!(answer, Ok((200, Some(Code::Ok | Code::InvalidArgument)))), "{value:?}: {answer:?}");
    }
    assert_well(&server, before, "wrong headers").await;
}

/// Types of HTTP/2 frames.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

/// A connection for raw frames.
struct Wire(TcpStream);

impl Wire {
    fn open(server: &Server) -> Self {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Self(stream)
    }

    /// Sends the frames of `next` as fast as the peer reads them. Returns whether the peer closes or stops
    /// reading before the last one.
    fn flood(&mut self, frames: u32, next: impl Fn(u32) -> Vec<u8>) -> bool {
        let mut bytes = Vec::new();
        for index in 0..frames {
            bytes.extend(next(index));
            if bytes.len() > 16 << 10 || index + 1 == frames {
                if self.0.write_all(&bytes).is_err() {
                    return true;
                }
                bytes.clear();
            }
        }
        false
    }

    /// Reads until the peer closes; returns whether it does in time.
    fn is_closed(&mut self) -> bool {
        let read = io::copy(&mut self.0, &mut io::sink());
        let late = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
        read.map_or_else(|error| !late.contains(&error.kind()), |_| true)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// A literal header.
fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

fn call_headers() -> Vec<u8> {
    let pairs = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", EXECUTE),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    pairs.iter().flat_map(|(name, value)| header(name, value)).collect()
}

/// Stream of the `index`th call of a client.
fn stream(index: u32) -> u32 {
    2 * index + 1
}

/// A name, a number of frames, the frames, and whether they must end the connection.
type Flood<'a> = (&'a str, u32, &'a dyn Fn(u32) -> Vec<u8>, bool);

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_end_their_own_connection() {
    let (_data, server, before) = well().await;
    let headers = call_headers();

    let more: Vec<u8> = (0..40).flat_map(|_| header("x-more", &"y".repeat(100))).collect();
    let begun = |index| frame(HEADERS, 4, stream(index), &headers);
    let taken_back = |index| [begun(index), frame(RST_STREAM, 0, stream(index), &[0, 0, 0, 8])].concat();
    let endless = |index| match index {
        0 => frame(HEADERS, 0, 1, &headers),
        _ => frame(CONTINUATION, 0, 1, &more),
    };
    // Frames that need responses, from a client that reads none: allowed only if this costs nothing.
    let (ping, settings) = (|_| frame(PING, 0, 0, &[7; 8]), |_| frame(SETTINGS, 0, 0, &[]));
    let floods: [Flood<'_>; 5] = [
        ("100,000 calls that were taken back", 100_000, &taken_back, true),
        ("headers without end", 20_000, &endless, true),
        ("pings", 500_000, &ping, false),
        ("settings", 500_000, &settings, false),
        // More than a connection may have, and none completed.
        ("20,000 calls at once", 20_000, &begun, false),
    ];
    for (what, frames, next, ends) in floods {
        let mut wire = Wire::open(&server);
        let is_refused = wire.flood(frames, next);
        assert!(!ends || is_refused || wire.is_closed(), "{what}");
        assert_well(&server, before, what).await;
    }
    assert_well(&server, before, "floods").await;
}
