//! Checks lines of HTTP/1.1 requests. The library accepts lines that end in LF alone, a length beside chunks,
//! other encodings, and a missing, second or malformed host. A proxy may interpret those differently, so this
//! marks the connection, whose calls then end with 400. A call whose trailers are wrong has already begun:
//! what follows becomes bytes that the library refuses.

use std::{
    mem,
    sync::{Arc, atomic::Ordering},
};

use http::uri::Authority;

use crate::{connections::Link, limits::HEADER_BYTES_MAX};

/// The expected input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// The first line of a request.
    #[default]
    Start,
    Header,
    Data(u64),
    ChunkSize,
    Trailer,
    /// Nothing to check: another protocol, or a marked connection.
    Anything,
    /// To make invalid.
    Broken,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct RequestLines {
    link: Arc<Link>,
    next: Next,
    /// The partial line.
    line: Vec<u8>,
    head: Head,
}

/// A request head's description of its body.
#[derive(Debug, Default)]
struct Head {
    length: Option<u64>,
    is_chunked: bool,
    has_host: bool,
    needs_host: bool,
}

impl RequestLines {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, next: Next::default(), line: Vec::new(), head: Head::default() }
    }

    pub(crate) fn follow(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() && self.next != Next::Anything {
            let count = match self.next {
                Next::Broken => return bytes.fill(b'\r'),
                Next::Data(left) => self.skip(left, bytes.len()),
                _ => self.read_line(bytes),
            };
            bytes = &mut bytes[count..];
        }
    }

    fn skip(&mut self, left: u64, there: usize) -> usize {
        let count = left.min(there as u64);
        self.next = match left - count {
            0 if self.head.is_chunked => Next::ChunkSize,
            0 => Next::Start,
            left => Next::Data(left),
        };
        // Bounded by what is there.
        usize::try_from(count).unwrap_or(there)
    }

    fn read_line(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let count = end.unwrap_or(bytes.len());
        self.line.extend_from_slice(&bytes[..count]);
        let is_long = self.line.len() > HEADER_BYTES_MAX as usize;
        if end.is_none() && !is_long {
            return count;
        }
        let line = mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").filter(|_| !is_long);
        let Some(next) = line.and_then(|line| self.after_line(line)) else {
            self.link.is_ambiguous.store(true, Ordering::Relaxed);
            self.next = if self.next == Next::Trailer { Next::Broken } else { Next::Anything };
            return count;
        };
        self.next = next;
        count + 1
    }

    /// The input after `line`; none if the line is invalid.
    fn after_line(&mut self, line: &[u8]) -> Option<Next> {
        Some(match self.next {
            Next::Start if line.is_empty() => Next::Start,
            Next::Start if line == b"PRI * HTTP/2.0" => Next::Anything,
            Next::Start => {
                self.head = Head { needs_host: line.ends_with(b"HTTP/1.1"), ..Head::default() };
                Next::Header
            }
            Next::Header if line.is_empty() => return self.head.end(),
            Next::Header => return self.head.record(line),
            Next::ChunkSize => {
                let size = line.split(|&byte| byte == b';').next().and_then(|size| str::from_utf8(size).ok());
                match size.and_then(|size| u64::from_str_radix(size.trim_ascii(), 16).ok())? {
                    0 => Next::Trailer,
                    // Includes the line end after it.
                    size => Next::Data(size.saturating_add(2)),
                }
            }
            Next::Trailer if line.is_empty() => Next::Start,
            next => next,
        })
    }
}

impl Head {
    fn record(&mut self, line: &[u8]) -> Option<Next> {
        let (name, value) = str::from_utf8(line).ok()?.split_once(':')?;
        let value = value.trim_ascii();
        match name.to_ascii_lowercase().as_str() {
            "host" if self.has_host || value.contains('@') => return None,
            "host" => self.has_host = value.is_empty() || value.parse::<Authority>().map(|_| true).ok()?,
            "content-length" => self.length = Some(value.parse().ok()?),
            "transfer-encoding" if self.is_chunked || !value.eq_ignore_ascii_case("chunked") => return None,
            "transfer-encoding" => self.is_chunked = true,
            _ => {}
        }
        (!self.is_chunked || self.length.is_none()).then_some(Next::Header)
    }

    fn end(&self) -> Option<Next> {
        (self.has_host || !self.needs_host).then_some(match self.length {
            _ if self.is_chunked => Next::ChunkSize,
            None | Some(0) => Next::Start,
            Some(length) => Next::Data(length),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{connections::Connections, metrics::Metrics, peer::Peer};

    const HEAD: &str = "POST / HTTP/1.1\r\nHost: x\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

    /// Whether the lines of `text` are not ambiguous, however it is split.
    fn passes(text: &str) -> bool {
        let whole = [text.len(), 1].map(|cut| {
            let place =
                Arc::new(Connections::new("web", 1, 1, &Metrics::new())).admit(Peer::UNKNOWN).unwrap();
            let (mut lines, mut bytes) = (RequestLines::new(place.link.clone()), text.as_bytes().to_vec());
            bytes.chunks_mut(cut).for_each(|part| lines.follow(part));
            bytes == text.as_bytes() && !place.link.is_ambiguous.load(Ordering::Relaxed)
        });
        assert_eq!(whole[0], whole[1], "{text:?}");
        whole[0]
    }

    #[test]
    fn requests_that_readers_agree_on_pass_and_others_do_not() {
        let chunks = "3;a=b\r\n\n{}\r\n1\r\n\n\r\n0\r\nA: b\r\n\r\n";
        let good = [
            format!("{HEAD}Content-Length: 3\r\n\r\n\n{{}}"),
            format!("{HEAD}{CHUNKED}\r\n{chunks}"),
            format!("\r\n{HEAD}\r\n"),
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\n\n".to_owned(),
        ];
        let bad = [
            HEAD.replace("\r\n", "\n"),
            format!("{HEAD}A: b\n\r\n"),
            format!("{HEAD}Content-Length: 2\r\n{CHUNKED}\r\n"),
            format!("{HEAD}{CHUNKED}Content-Length: 2\r\n\r\n"),
            format!("{HEAD}Content-Length: +\r\n\r\n"),
            format!("{HEAD}Host: y\r\n\r\n"),
            "POST / HTTP/1.1\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
            format!("{HEAD}{CHUNKED}{CHUNKED}\r\n"),
            format!("{HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n"),
            format!("{HEAD}{CHUNKED}\r\n2\n{{}}\r\n0\r\n\r\n"),
            format!("{HEAD}{CHUNKED}\r\n2;a\nb\r\n{{}}\r\n0\r\n\r\n"),
            format!("{HEAD}{CHUNKED}\r\n2;{}\r\n{{}}\r\n0\r\n\r\n", "a".repeat(16_383)),
            format!("{HEAD}{CHUNKED}\r\n0\r\nA: b\n\n"),
        ];
        for first in &good {
            assert!(passes(first), "{first:?}");
            // Following it on the same connection.
            let is_other = first.starts_with("PRI");
            bad.iter().for_each(|bad| assert_eq!(passes(&format!("{first}{bad}")), is_other, "{bad:?}"));
        }
        bad.iter().for_each(|bad| assert!(!passes(bad), "{bad:?}"));
    }
}
