//! The body of a request as it arrives: charged to the byte budget, with its own timeout, and refused with
//! the right status if it is no gRPC message. The framework's own error would blame the server.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::{
    budget::{Budget, Grant, Spent},
    peer::Peer,
    status::Fault,
};

/// Wait of a caller whose bytes exceed the budget.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Bytes before each message: a flag and the length.
pub(crate) const HEAD_BYTES: usize = 5;

/// Bytes that the server holds for a peer: for owners of streamed data that was received or is to be sent.
#[derive(Clone, Debug)]
pub struct RequestBytes {
    budget: Arc<Budget<Peer>>,
    peer: Peer,
}

/// Through this, an outer layer finds the budget of a call once it is admitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct BytesSlot(Arc<OnceLock<RequestBytes>>);

impl BytesSlot {
    /// Lets the other end hold bytes.
    pub(crate) fn fill(&self, bytes: RequestBytes) {
        // A call is admitted once.
        let _ = self.0.set(bytes);
    }

    /// Like [`RequestBytes::hold`].
    pub(crate) fn hold(&self, bytes: usize) -> Result<HeldBytes, Fault> {
        RequestBytes::hold(self.0.get(), bytes)
    }
}

/// `bytes` with what is held for them until they have been sent.
pub(crate) fn owned(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    struct Owner<H>(Bytes, H);
    impl<H> AsRef<[u8]> for Owner<H> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Owner(bytes, held))
}

/// Bytes held for a caller; returned on drop.
#[derive(Debug, Default)]
pub struct HeldBytes(Option<Grant<Peer>>);

impl RequestBytes {
    pub(crate) fn new(budget: Arc<Budget<Peer>>, peer: Peer) -> Self {
        Self { budget, peer }
    }

    /// Holds `bytes`.
    ///
    /// # Errors
    /// The peer or all peers together have reached their limit.
    pub fn hold(this: Option<&Self>, bytes: usize) -> Result<HeldBytes, Fault> {
        let grant = this.map(|this| this.budget.take(&this.peer, bytes as u64)).transpose();
        grant.map(HeldBytes).map_err(over_budget)
    }
}

impl HeldBytes {
    /// Holds `bytes` more.
    ///
    /// # Errors
    /// Like [`RequestBytes::hold`].
    pub fn grow(&self, bytes: usize) -> Result<(), Fault> {
        self.0.as_ref().map_or(Ok(()), |grant| grant.grow(bytes as u64)).map_err(over_budget)
    }
}

pub(crate) fn over_budget(spent: Spent) -> Fault {
    let problem = match spent {
        Spent::All => "the requests in progress and their answers take as many bytes as they may",
        Spent::Share => {
            "the requests of this peer in progress and their answers take as many bytes as they may"
        }
    };
    Fault::exhausted("REQUEST_BYTES", problem, RETRY_AFTER)
}

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Longest message, bytes.
    pub(crate) message_bytes_max: usize,
    /// Total wait for the rest of messages and for the first message.
    pub(crate) message_time_max: Duration,
    /// Whether there may be many messages: then each returns its bytes when the next one is requested.
    pub(crate) is_stream: bool,
    /// Whether the caller has named an encoding.
    pub(crate) is_encoded: bool,
}

/// A request body within [`Terms`].
pub(crate) struct MeteredBody {
    inner: tonic::body::Body,
    terms: Terms,
    /// The charge, shared with the call: the message lives as long as the call.
    charged: Arc<Grant<Peer>>,
    framing: Framing,
    waiting: Waiting,
    /// It ended with an error.
    is_over: bool,
}

impl MeteredBody {
    pub(crate) fn new(inner: tonic::body::Body, terms: Terms, charged: Arc<Grant<Peer>>) -> Self {
        let waiting = Waiting { left: terms.message_time_max, since: None };
        Self { inner, terms, charged, framing: Framing::default(), waiting, is_over: false }
    }

    fn take(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.charged.grow(data.len() as u64).map_err(over_budget)?;
        let messages = self.framing.messages;
        self.framing.read(data, &self.terms)?;
        if self.framing.messages > messages {
            self.waiting.left = self.terms.message_time_max;
        }
        Ok(())
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.terms.is_stream {
            // The reader has taken all whole messages.
            this.charged.shrink_to(this.framing.begun_bytes as u64);
        }
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            // Between messages of a stream, the service decides how long to wait.
            if this.framing.messages > 0 && this.framing.is_between() {
                return Poll::Pending;
            }
            ready!(this.waiting.poll(context));
            this.is_over = true;
            let ms = this.terms.message_time_max.as_millis();
            let fault = Fault::late("REQUEST_DEADLINE", format!("the request did not come within {ms} ms"));
            return Poll::Ready(Some(Err(fault.into())));
        };
        this.waiting.stop();
        let checked = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(Ok(()), |data| this.take(data)),
            Some(Err(_)) => Ok(()),
            None => this.framing.end(&this.terms),
        };
        match checked {
            Ok(()) => Poll::Ready(frame),
            Err(fault) => {
                this.is_over = true;
                Poll::Ready(Some(Err(fault.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // The end must be polled, because polling checks it.
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Remaining time to wait for a message. The server's own work does not count.
#[derive(Debug)]
struct Waiting {
    left: Duration,
    since: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Waiting {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let left = self.left;
        let (_, end) = self.since.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        end.as_mut().poll(context)
    }

    fn stop(&mut self) {
        if let Some((since, _)) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }
}

/// Position of a body in the sequence of messages.
#[derive(Debug, Default)]
struct Framing {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Remaining bytes of the message.
    left: usize,
    /// Bytes of the incomplete message.
    begun_bytes: usize,
    /// Complete messages.
    messages: u64,
}

impl Framing {
    /// Whether no message is incomplete.
    fn is_between(&self) -> bool {
        self.begun_bytes == 0
    }

    fn read(&mut self, mut data: &[u8], terms: &Terms) -> Result<(), Fault> {
        while !data.is_empty() {
            if self.messages > 0 && !terms.is_stream {
                return Err(malformed("the request has a second message"));
            }
            if self.left == 0 {
                let count = data.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..count].copy_from_slice(&data[..count]);
                self.head_bytes += count;
                self.begun_bytes += count;
                data = &data[count..];
                if self.head_bytes < HEAD_BYTES {
                    return Ok(());
                }
                self.head_bytes = 0;
                self.left = content_bytes(self.head, terms)?;
            } else {
                let count = data.len().min(self.left);
                self.left -= count;
                self.begun_bytes += count;
                data = &data[count..];
            }
            if self.left == 0 {
                self.messages += 1;
                self.begun_bytes = 0;
            }
        }
        Ok(())
    }

    fn end(&self, terms: &Terms) -> Result<(), Fault> {
        let is_enough = terms.is_stream || self.messages > 0;
        if self.is_between() && is_enough {
            return Ok(());
        }
        let problem =
            if is_enough { "the request ends within a message" } else { "the request is no whole message" };
        Err(malformed(problem))
    }
}

/// Length of the message after `head`.
fn content_bytes(head: [u8; HEAD_BYTES], terms: &Terms) -> Result<usize, Fault> {
    let [flag, length @ ..] = head;
    match flag {
        0 => {}
        1 if terms.is_encoded => {}
        1 => return Err(malformed("a message is compressed, and no grpc-encoding says how")),
        _ => return Err(malformed("a message has a flag that there is not")),
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > terms.message_bytes_max {
        let most = terms.message_bytes_max;
        let problem = format!("a message of {length} bytes, at most {most} are allowed");
        return Err(Fault::too_large(problem).metadata("message_bytes_max", most.to_string()));
    }
    Ok(length)
}

fn malformed(problem: &str) -> Fault {
    Fault::invalid("MESSAGE_MALFORMED", problem)
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

    use super::*;
    use crate::status::code_label;

    const UNARY: Terms = Terms {
        message_bytes_max: 100,
        message_time_max: Duration::from_millis(200),
        is_stream: false,
        is_encoded: false,
    };

    fn budget() -> Arc<Budget<Peer>> {
        Arc::new(Budget::new(64, 64))
    }

    /// A body that ends after its parts, or one that stays open.
    fn body(
        parts: Vec<Vec<u8>>,
        ends: bool,
        terms: Terms,
        budget: &Arc<Budget<Peer>>,
    ) -> (MeteredBody, Option<tokio::sync::mpsc::Sender<Bytes>>) {
        let (sender, more) = tokio::sync::mpsc::channel(1);
        let frames = tokio_stream::iter(parts.into_iter().map(Bytes::from)).chain(ReceiverStream::new(more));
        let inner = StreamBody::new(frames.map(|data| Ok::<_, Status>(Frame::data(data))));
        let charged = Arc::new(budget.take(&Peer::UNKNOWN, 0).unwrap());
        let body = MeteredBody::new(tonic::body::Body::new(inner), terms, charged);
        (body, (!ends).then_some(sender))
    }

    async fn code(parts: Vec<Vec<u8>>, ends: bool, terms: Terms) -> Option<&'static str> {
        let (body, _open) = body(parts, ends, terms, &budget());
        body.collect().await.err().map(|status| code_label(status.code()))
    }

    #[tokio::test]
    async fn what_is_no_message_is_the_caller_s_mistake() {
        let stream = Terms { is_stream: true, ..UNARY };
        let ok = || vec![vec![0, 0, 0], vec![0, 2, 7, 7]];
        assert_eq!(code(ok(), true, UNARY).await, None);
        assert_eq!(code(vec![vec![0; 5]], true, UNARY).await, None);
        assert_eq!(code(vec![vec![0; 10]], true, stream).await, None);
        assert_eq!(code(vec![vec![0; 5], vec![0; 5]], true, UNARY).await, Some("INVALID_ARGUMENT"));
        assert_eq!(code(vec![], true, stream).await, None);
        assert_eq!(code(vec![], true, UNARY).await, Some("INVALID_ARGUMENT"));
        for parts in
            [vec![vec![0, 0, 0]], vec![vec![0, 0, 0, 0, 2, 7]], vec![vec![7; 5]], vec![vec![1, 0, 0, 0, 0]]]
        {
            assert_eq!(code(parts.clone(), true, UNARY).await, Some("INVALID_ARGUMENT"), "{parts:?}");
            assert_eq!(code(parts.clone(), true, stream).await, Some("INVALID_ARGUMENT"), "{parts:?}");
        }
        assert_eq!(code(vec![vec![0, 0, 0, 0, 101]], true, UNARY).await, Some("RESOURCE_EXHAUSTED"));
        assert_eq!(code(vec![vec![1, 0, 0, 0, 0]], true, Terms { is_encoded: true, ..UNARY }).await, None);
    }

    #[tokio::test]
    async fn a_message_comes_in_time_or_not_at_all() {
        for parts in [vec![], vec![vec![0, 0, 0, 0, 2, 7]]] {
            let started = Instant::now();
            assert_eq!(code(parts, false, UNARY).await, Some("DEADLINE_EXCEEDED"));
            assert!(started.elapsed() >= UNARY.message_time_max);
        }
        // A stream may pause between messages.
        let (mut body, _open) =
            body(vec![vec![0, 0, 0, 0, 1, 7]], false, Terms { is_stream: true, ..UNARY }, &budget());
        assert!(body.frame().await.unwrap().is_ok());
        assert!(tokio::time::timeout(2 * UNARY.message_time_max, body.frame()).await.is_err());
    }

    #[tokio::test]
    async fn bytes_are_charged_until_the_call_ends_or_the_next_message_is_asked_for() {
        let message = || [&[0, 0, 0, 0, 20][..], &[7; 20]].concat();
        for (is_stream, messages) in [(false, 1), (true, 2)] {
            let budget = budget();
            let (mut body, open) =
                body(vec![message(); messages], false, Terms { is_stream, ..UNARY }, &budget);
            for _ in 0..messages {
                assert!(body.frame().await.unwrap().is_ok());
            }
            assert_eq!(budget.total(), 25);
            open.unwrap()
                .send(Bytes::from(vec![0, 0, 0, 0, 60].into_iter().chain([7; 60]).collect::<Vec<_>>()))
                .await
                .unwrap();
            assert_eq!(code_label(body.frame().await.unwrap().unwrap_err().code()), "RESOURCE_EXHAUSTED");
            drop(body);
            assert_eq!(budget.total(), 0);
        }
    }
}
