//! What is left of a request when its call has been answered: read and dropped for a while. A stream that is
//! reset while its peer still sends costs the connection a part of what the HTTP/2 library forgives it, for
//! each frame that comes later; after 1,024 of them it ends the connection, with every call on it.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{runtime::Handle, time::timeout};

/// Bytes that are read after the answer: a script of usual size in a call that is refused. Who sends more is
/// reset, so that it stops.
const BYTES_MAX: usize = 1 << 20;

/// How long they may take.
const TIME_MAX: Duration = Duration::from_secs(2);

/// The body of a request, read on by itself when it is dropped before its end.
pub(crate) struct Unread<B: Body<Data = Bytes> + Unpin + Send + 'static>(Option<B>);

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Unread<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Some(body))
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Body for Unread<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Drop for Unread<B> {
    fn drop(&mut self) {
        let body = self.0.take().filter(|body| !body.is_end_stream());
        // Without a runtime the process ends, and its connections with it.
        if let (Some(body), Ok(runtime)) = (body, Handle::try_current()) {
            runtime.spawn(timeout(TIME_MAX, read(body)));
        }
    }
}

/// Reads to the end of `body`, or as far as it may.
async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut left = BYTES_MAX;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use tokio::sync::mpsc::{Sender, channel};
    use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};

    use super::*;

    /// A body, and where its bytes come from.
    fn body() -> (Unread<impl Body<Data = Bytes> + Unpin + Send + 'static>, Sender<usize>) {
        let (sender, bytes) = channel(1);
        let frames = ReceiverStream::new(bytes)
            .map(|bytes| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; bytes]))));
        (Unread::new(StreamBody::new(frames)), sender)
    }

    #[tokio::test]
    async fn what_follows_an_answer_is_taken_up_to_a_limit() {
        let (body, sender) = body();
        drop(body);
        for _ in 0..BYTES_MAX >> 16 {
            sender.send(1 << 16).await.unwrap();
        }
        // One byte more ends it: nobody takes the next one.
        sender.send(1).await.unwrap();
        sender.closed().await;
    }

    #[tokio::test]
    async fn nobody_waits_for_it_for_long() {
        let (body, sender) = body();
        drop(body);
        sender.send(1).await.unwrap();
        sender.closed().await;
    }

    #[test]
    fn without_a_runtime_it_is_dropped() {
        let (body, sender) = body();
        drop(body);
        assert!(sender.is_closed());
    }
}
