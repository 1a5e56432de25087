//! Parses a JSON request body into gRPC messages: one, or one per line. The text and its parsing memory count
//! toward the request budget.

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost_reflect::MessageDescriptor;
use tonic::{Status, body::Body};

use super::forms::{reading_bytes, to_frame, too_long};
use crate::{
    body::{BytesSlot, HeldBytes},
    status::Fault,
    tasks::blocking,
};

/// Longer texts are parsed off the threads that serve connections.
const QUICK_BYTES: usize = 64 << 10;

/// Settings of a body.
#[derive(Clone, Debug)]
pub(crate) struct JsonRequest {
    pub(crate) message: MessageDescriptor,
    /// Whether each line is a message.
    pub(crate) is_stream: bool,
    /// Maximum text length of a message.
    pub(crate) text_bytes_max: usize,
    pub(crate) bytes: BytesSlot,
}

/// Converts `body` to gRPC messages.
pub(crate) fn json_request(body: Body, how: JsonRequest) -> Body {
    let reader = Reader { body, how, text: BytesMut::new(), searched: 0, held: None, end: End::Open };
    Body::new(StreamBody::new(stream::unfold(reader, async |mut reader| {
        let read = reader.next().await.transpose()?;
        if read.is_err() {
            reader.end = End::Closed;
        }
        Some((read.map(Frame::data), reader))
    })))
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    /// More may arrive.
    Open,
    /// The input has ended, and the last message is still unparsed.
    Read,
    Closed,
}

struct Reader {
    body: Body,
    how: JsonRequest,
    /// Received text that is not parsed yet.
    text: BytesMut,
    /// Bytes of it without a line end.
    searched: usize,
    /// Budget held for it.
    held: Option<HeldBytes>,
    end: End,
}

impl Reader {
    /// The next message; none after the last.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        while self.end != End::Closed {
            if let Some(text) = self.whole() {
                self.held = None;
                self.held = Some(self.how.bytes.hold(self.text.len())?);
                if self.how.is_stream && text.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(self.read(text).await?));
            }
            if self.end == End::Closed {
                break;
            }
            match self.body.frame().await {
                None => self.end = End::Read,
                Some(frame) => self.take(frame?)?,
            }
        }
        Ok(None)
    }

    /// The text of the next message, once complete.
    fn whole(&mut self) -> Option<Bytes> {
        let found = self.text[self.searched..].iter().position(|&byte| byte == b'\n');
        match found.filter(|_| self.how.is_stream) {
            Some(at) => {
                let line = self.text.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                Some(line)
            }
            None if self.end == End::Read => {
                self.end = End::Closed;
                (!self.how.is_stream || !self.text.is_empty()).then(|| self.text.split().freeze())
            }
            None => {
                self.searched = self.text.len();
                None
            }
        }
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Result<(), Fault> {
        let Ok(data) = frame.into_data() else { return Ok(()) };
        match &self.held {
            Some(held) => held.grow(data.len())?,
            None => self.held = Some(self.how.bytes.hold(data.len())?),
        }
        self.text.extend_from_slice(&data);
        let most = self.how.text_bytes_max;
        // A chunk of a stream may contain many lines.
        let ended = self.text.iter().rposition(|&byte| byte == b'\n').filter(|_| self.how.is_stream);
        let begun = self.text.len() - ended.unwrap_or(0);
        if begun > most { Err(too_long(begun, most)) } else { Ok(()) }
    }

    async fn read(&mut self, text: Bytes) -> Result<Bytes, Status> {
        let most = self.how.text_bytes_max;
        if text.len() > most {
            return Err(too_long(text.len(), most).into());
        }
        let _held = self.how.bytes.hold(text.len() + reading_bytes(&text))?;
        let message = self.how.message.clone();
        if text.len() <= QUICK_BYTES {
            return Ok(to_frame(&message, &text)?);
        }
        let read = blocking(move || to_frame(&message, &text)).await;
        Ok(read.unwrap_or_else(|| Err(Fault::failed("INTERNAL", "reading JSON was given up")))?)
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    async fn read(parts: &[&str], is_stream: bool) -> Result<Vec<u8>, Status> {
        let pool = DescriptorPool::decode(tonic_health::pb::FILE_DESCRIPTOR_SET).unwrap();
        let message = pool.get_message_by_name("grpc.health.v1.HealthCheckRequest").unwrap();
        let how = JsonRequest { message, is_stream, text_bytes_max: 40, bytes: BytesSlot::default() };
        let parts: Vec<_> =
            parts.iter().map(|part| Ok::<_, Status>(Frame::data(Bytes::from(part.to_string())))).collect();
        let body = Body::new(StreamBody::new(tokio_stream::iter(parts)));
        Ok(json_request(body, how).collect().await?.to_bytes().to_vec())
    }

    const A: &[u8] = b"\0\0\0\0\x03\x0a\x01a";
    const B: &[u8] = b"\0\0\0\0\x03\x0a\x01b";

    #[tokio::test]
    async fn lines_are_messages_wherever_they_are_cut() {
        assert_eq!(read(&["{\"serv", "ice\":\"a\"}\n"], false).await.unwrap(), A);
        let both = [A, B].concat();
        assert_eq!(read(&["{\"service\":\"a\"}\n\n{\"serv", "ice\":", "\"b\"}"], true).await.unwrap(), both);
        assert_eq!(read(&["{\"service\":\"a\"}\r\n{\"service\":\"b\"}\r\n"], true).await.unwrap(), both);
        assert!(read(&[], true).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_is_too_long_or_none_ends_it() {
        let long = format!("{{\"service\":\"{}\"}}", "a".repeat(40));
        for (parts, is_stream) in [
            (vec!["{\"service\":\"a\"}\n", "x\n"], true),
            (vec![], false),
            (vec![&long], false),
            (vec![&long], true),
        ] {
            let status = read(&parts, is_stream).await.unwrap_err();
            let expected =
                if parts.contains(&long.as_str()) { "MESSAGE_TOO_LARGE" } else { "MESSAGE_MALFORMED" };
            let headers = status.into_http::<()>().into_parts().0.headers;
            assert_eq!(crate::status::reason_in(&headers).as_deref(), Some(expected));
        }
    }
}
