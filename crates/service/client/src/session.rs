//! A session that continues on another server when it loses its own.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1;
use tokio::{
    sync::mpsc,
    time::{sleep_until, timeout_at},
};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use crate::{
    Error,
    call::{Attempt, Inner, Link},
    retry::CALLS,
    status::{Advice, ended_early, is_over, late},
};

/// Maximum unanswered inputs.
const WAITING_MAX: usize = 256;
/// Maximum answers that the caller has not taken.
const ANSWERS_MAX: usize = 64;

/// Result of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<R = v1::BatchResult> {
    /// The input's number.
    pub id: u64,
    /// The script's end, or the verdict on the transaction.
    pub result: R,
}

/// The answers of a session. Dropping it ends the session.
#[derive(Debug)]
pub struct Session<R = v1::BatchResult> {
    answers: mpsc::Receiver<Result<Answer<R>, Error>>,
}

impl<R> Session<R> {
    /// The next answer; none after the last input's or after an error.
    pub async fn next(&mut self) -> Option<Result<Answer<R>, Error>> {
        self.answers.recv().await
    }
}

/// A server's message in a session.
pub(crate) enum Reply<R> {
    Started,
    Answer { id: u64, result: R },
    Unexpected,
}

/// Specifics of a kind of session.
pub(crate) trait Kind: Send + 'static {
    /// An input with its number.
    type Item: Clone + Send + Sync;
    type Request: Send + 'static;
    type Response: Send + 'static;
    type Result: Send + 'static;
    /// Whether answers come in the order of the inputs.
    const IN_ORDER: bool;

    fn id(item: &Self::Item) -> u64;
    fn start(&self) -> Self::Request;
    fn request(item: Self::Item) -> Self::Request;
    fn open(
        link: &Link,
        requests: ReceiverStream<Self::Request>,
    ) -> impl Future<Output = Result<Streaming<Self::Response>, Status>> + Send;
    fn read(response: Self::Response) -> Reply<Self::Result>;
    /// The error of one input, if it has one.
    fn error(result: &Self::Result) -> Option<Status>;
    /// Uploads what the server lacks according to `status`, unless that happened since the part `began`.
    fn uploaded(
        &mut self,
        link: &Link,
        status: &Status,
        began: Instant,
    ) -> impl Future<Output = Result<bool, Status>> + Send;
}

pub(crate) fn begin<K: Kind>(
    inner: Arc<Inner>,
    part: Duration,
    kind: K,
    inputs: impl Stream<Item = K::Item> + Send + 'static,
) -> Session<K::Result> {
    let (sender, answers) = mpsc::channel(ANSWERS_MAX);
    let driver = Driver {
        inner,
        part,
        kind,
        inputs: Box::pin(inputs),
        has_ended: false,
        waiting: VecDeque::new(),
        again: Vec::new(),
        tried: HashMap::new(),
        answered: 0,
        answers: sender,
    };
    tokio::spawn(driver.run());
    Session { answers }
}

/// How one server's part of a session ended.
enum End {
    /// All inputs are answered, or the caller has gone away.
    Done,
    Lost(Status),
    Failed(Error),
}

struct Driver<K: Kind> {
    inner: Arc<Inner>,
    /// Longest time with one server.
    part: Duration,
    kind: K,
    inputs: Pin<Box<dyn Stream<Item = K::Item> + Send>>,
    has_ended: bool,
    /// Unanswered inputs, sent or not.
    waiting: VecDeque<K::Item>,
    /// Of those, inputs to send again, with the times.
    again: Vec<(Instant, u64)>,
    /// Attempts of inputs that had their own errors.
    tried: HashMap<u64, u32>,
    answered: u64,
    answers: mpsc::Sender<Result<Answer<K::Result>, Error>>,
}

impl<K: Kind> Driver<K> {
    async fn run(mut self) {
        let inner = self.inner.clone();
        let (mut attempts, mut last) = (0, None::<String>);
        loop {
            // Contacts a server only when there is an input.
            if let Err(error) = self.first().await {
                return self.fail(error).await;
            }
            if self.waiting.is_empty() {
                return;
            }
            let before = self.answered;
            let lease = inner.servers.least_busy(last.as_deref());
            let server = lease.0.name().to_owned();
            let until = Instant::now() + self.part;
            let link = Link { inner: inner.clone(), server: lease.0.clone(), until };
            let began = Instant::now();
            let status = match self.part(&link, &server).await {
                End::Done => return,
                End::Failed(error) => return self.fail(error).await,
                End::Lost(status) => status,
            };
            attempts = if self.answered > before { 1 } else { attempts + 1 };
            let attempt = Attempt { number: attempts, began };
            let wait = match self.kind.uploaded(&link, &status, began).await {
                Ok(true) => Some(Duration::ZERO),
                Ok(false) if self.answered > before && is_over(&status) => Some(CALLS.pause(0)),
                Ok(false) => inner.wait(&status, &lease, attempt),
                Err(status) => inner.wait(&status, &lease, attempt),
            };
            let Some(wait) = wait else {
                return self.fail(Error::Status { server, status: Box::new(status), attempts }).await;
            };
            // After an upload, the same server may continue.
            last = (wait > Duration::ZERO).then_some(server);
            drop(lease);
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for the first input if there is none.
    async fn first(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() && !self.has_ended {
            let answers = self.answers.clone();
            let next = tokio::select! {
                next = self.inputs.next() => next,
                () = answers.closed() => None,
            };
            self.take(next)?;
        }
        Ok(())
    }

    fn take(&mut self, next: Option<K::Item>) -> Result<Option<&K::Item>, Error> {
        let Some(item) = next else {
            self.has_ended = true;
            return Ok(None);
        };
        let id = K::id(&item);
        if self.waiting.iter().any(|waiting| K::id(waiting) == id) {
            return Err(Error::SameId { id });
        }
        self.waiting.push_back(item);
        Ok(self.waiting.back())
    }

    async fn fail(self, error: Error) {
        // The receiver may be gone.
        let _ = self.answers.send(Err(error)).await;
    }

    /// One server's part of the session: sends all unanswered inputs again, then new ones.
    async fn part(&mut self, link: &Link, server: &str) -> End {
        let (sender, requests) = mpsc::channel(WAITING_MAX + 1);
        self.again.clear();
        let inputs = self.waiting.iter().cloned().map(K::request);
        // The channel has capacity for all; missing answers reveal a server that is gone.
        std::iter::once(self.kind.start()).chain(inputs).for_each(|first| drop(sender.try_send(first)));
        let opened = timeout_at(link.until.into(), K::open(link, ReceiverStream::new(requests))).await;
        let mut reported = match opened {
            Ok(Ok(reported)) => reported,
            Ok(Err(status)) => return End::Lost(status),
            Err(_) => return End::Lost(late()),
        };
        let mut sender = Some(sender);
        loop {
            // Unordered inputs may have to be sent again.
            if self.has_ended && (K::IN_ORDER || self.waiting.is_empty()) {
                sender = None;
            }
            let has_room = !self.has_ended && self.waiting.len() < WAITING_MAX;
            let soonest = self.again.iter().map(|(when, _)| *when).min();
            tokio::select! {
                next = self.inputs.next(), if has_room => match self.take(next) {
                    Ok(Some(item)) => {
                        sender.iter().for_each(|sender| drop(sender.try_send(K::request(item.clone()))));
                    }
                    Ok(None) => {}
                    Err(error) => return End::Failed(error),
                },
                reported = reported.message() => match reported {
                    Ok(Some(reported)) => match self.answer(reported, server).await {
                        Ok(()) => {}
                        Err(end) => return end,
                    },
                    Ok(None) if self.has_ended && self.waiting.is_empty() => return End::Done,
                    Ok(None) => return End::Lost(ended_early()),
                    Err(status) => return End::Lost(status),
                },
                () = sleep_until(soonest.unwrap_or(link.until).into()), if soonest.is_some() => {
                    self.send_again(sender.as_ref());
                }
                () = self.answers.closed() => return End::Done,
            }
        }
    }

    /// Resends inputs with transient errors, when due.
    fn send_again(&mut self, sender: Option<&mpsc::Sender<K::Request>>) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.again).into_iter().partition(|(when, _)| *when <= now);
        self.again = later;
        let due: Vec<(Instant, u64)> = due;
        for item in self.waiting.iter().filter(|item| due.iter().any(|(_, id)| *id == K::id(item))) {
            sender.into_iter().for_each(|sender| drop(sender.try_send(K::request(item.clone()))));
        }
    }

    /// Passes an answer on.
    async fn answer(&mut self, response: K::Response, server: &str) -> Result<(), End> {
        let wrong = |problem: &str| {
            Err(End::Failed(Error::Protocol { server: server.to_owned(), problem: problem.to_owned() }))
        };
        let (id, result) = match K::read(response) {
            Reply::Started => return Ok(()),
            Reply::Answer { id, result } => (id, result),
            Reply::Unexpected => return wrong("a message without a result"),
        };
        let place = self.waiting.iter().position(|item| K::id(item) == id);
        let Some(place) = place.filter(|place| !K::IN_ORDER || *place == 0) else {
            return wrong("an answer to another input than the next");
        };
        let error = K::error(&result);
        if error.as_ref().is_some_and(is_over) {
            // Older servers report that for work in progress when a session's time was over.
            return Ok(());
        }
        if let Some(Advice::Wait(time)) = error.map(|status| Advice::of(&status)) {
            let tried = self.tried.entry(id).or_default();
            *tried += 1;
            if *tried < CALLS.attempts_max {
                self.again.push((Instant::now() + time + CALLS.pause(*tried - 1), id));
                return Ok(());
            }
        }
        self.waiting.remove(place);
        self.tried.remove(&id);
        self.answered += 1;
        self.inner.budget.succeed();
        self.answers.send(Ok(Answer { id, result })).await.map_err(|_| End::Done)
    }
}
