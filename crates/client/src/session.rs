//! A session that goes on with another server when it loses its own.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1::{self, execute_session_request::Message, execute_session_response::Message as Told};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Status, Streaming};

use crate::{
    Error, Script,
    call::Link,
    client::{Inner, Naming, bring, runner},
    retry::pause,
    status::{ended_early, is_over, late},
};

/// Inputs that wait for their answers, at most.
const WAITING_MAX: usize = 256;
/// Answers that nobody has taken, at most.
const ANSWERS_MAX: usize = 64;

/// What a script did with an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The input's number.
    pub id: u64,
    /// How the script ended.
    pub result: v1::BatchResult,
}

/// The answers of a session. It ends when this is dropped.
#[derive(Debug)]
pub struct Session {
    answers: mpsc::Receiver<Result<Answer, Error>>,
}

impl Session {
    /// The next answer; none behind that to the last input, or behind an error.
    pub async fn next(&mut self) -> Option<Result<Answer, Error>> {
        self.answers.recv().await
    }
}

pub(crate) fn begin(
    inner: Arc<Inner>,
    part: Duration,
    script: Script,
    start: v1::SessionStart,
    inputs: impl Stream<Item = (u64, v1::Input)> + Send + 'static,
) -> Session {
    let (sender, answers) = mpsc::channel(ANSWERS_MAX);
    let driver = Driver {
        inner,
        part,
        script,
        start,
        naming: Naming::Digest,
        inputs: Box::pin(inputs),
        has_ended: false,
        waiting: VecDeque::new(),
        answered: 0,
        answers: sender,
    };
    tokio::spawn(driver.run());
    Session { answers }
}

/// How the part of a session that one server had has ended.
enum End {
    /// All inputs have their answers, or nobody wants them any more.
    Done,
    Lost(Status),
    Failed(Error),
}

struct Driver {
    inner: Arc<Inner>,
    /// Longest time with one server.
    part: Duration,
    script: Script,
    start: v1::SessionStart,
    naming: Naming,
    inputs: Pin<Box<dyn Stream<Item = (u64, v1::Input)> + Send>>,
    has_ended: bool,
    /// Sent, or to be sent, and not answered.
    waiting: VecDeque<v1::SessionInput>,
    answered: u64,
    answers: mpsc::Sender<Result<Answer, Error>>,
}

impl Driver {
    async fn run(mut self) {
        let inner = self.inner.clone();
        let (mut attempts, mut last) = (0, None::<String>);
        loop {
            // A server is asked when there is something to ask.
            if let Err(error) = self.first().await {
                return self.fail(error).await;
            }
            if self.waiting.is_empty() {
                return;
            }
            let before = self.answered;
            let lease = inner.servers.pick(last.as_deref());
            let server = lease.0.name.clone();
            let until = Instant::now() + self.part;
            let link = Link { inner: inner.clone(), server: lease.0.clone(), until };
            let began = Instant::now();
            let status = match self.part(&link, &server).await {
                End::Done => return,
                End::Failed(error) => return self.fail(error).await,
                End::Lost(status) => status,
            };
            attempts = if self.answered > before { 1 } else { attempts + 1 };
            let wait = match self.brought(&link, &status, began).await {
                Ok(true) => Some(Duration::ZERO),
                Ok(false) if self.answered > before && is_over(&status) => Some(pause(0, Duration::ZERO)),
                Ok(false) => inner.wait(&status, &lease, attempts),
                Err(status) => inner.wait(&status, &lease, attempts),
            };
            let Some(wait) = wait else {
                return self.fail(Error::Status { server, status: Box::new(status), attempts }).await;
            };
            // Who had not got the script has it now.
            last = (wait > Duration::ZERO).then_some(server);
            drop(lease);
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for an input if none is there.
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

    fn take(&mut self, next: Option<(u64, v1::Input)>) -> Result<Option<&v1::SessionInput>, Error> {
        let Some((id, input)) = next else {
            self.has_ended = true;
            return Ok(None);
        };
        if self.waiting.iter().any(|waiting| waiting.id == id) {
            return Err(Error::SameId { id });
        }
        self.waiting.push_back(v1::SessionInput { id, input: Some(input) });
        Ok(self.waiting.back())
    }

    async fn fail(self, error: Error) {
        // Nobody may be left to hear it.
        let _ = self.answers.send(Err(error)).await;
    }

    /// Whether the server has the script now, if that was what it lacked.
    async fn brought(&mut self, link: &Link, status: &Status, began: Instant) -> Result<bool, Status> {
        match bring(link, &self.script, status, began).await {
            // Once brought along it was not missing.
            Some(_) if self.naming == Naming::Inline => Ok(false),
            Some(naming) => {
                self.naming = naming?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The part of the session that one server has: everything that waits is sent again, then what comes.
    async fn part(&mut self, link: &Link, server: &str) -> End {
        let (sender, requests) = mpsc::channel(WAITING_MAX + 1);
        let message = |message| v1::ExecuteSessionRequest { message: Some(message) };
        let options = self.start.script.as_ref().and_then(|script| script.options.clone());
        let script = Some(self.script.message(self.naming, options));
        let start = Message::Start(v1::SessionStart { script, ..self.start.clone() });
        let inputs = self.waiting.iter().cloned().map(Message::Input);
        // There is room for all of them; a server that is gone is noticed where its answers are missing.
        std::iter::once(start).chain(inputs).for_each(|first| drop(sender.try_send(message(first))));
        let call = link.request(ReceiverStream::new(requests));
        let mut runner = runner(&link.server.channel);
        let opened = tokio::time::timeout_at(link.until.into(), runner.execute_session(call)).await;
        let mut told: Streaming<v1::ExecuteSessionResponse> = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return End::Lost(status),
            Err(_) => return End::Lost(late()),
        };
        let mut sender = Some(sender);
        loop {
            if self.has_ended {
                sender = None;
            }
            let has_room = !self.has_ended && self.waiting.len() < WAITING_MAX;
            tokio::select! {
                next = self.inputs.next(), if has_room => match self.take(next) {
                    Ok(Some(input)) => {
                        let input = message(Message::Input(input.clone()));
                        sender.iter().for_each(|sender| drop(sender.try_send(input.clone())));
                    }
                    Ok(None) => {}
                    Err(error) => return End::Failed(error),
                },
                told = told.message() => match told {
                    Ok(Some(told)) => match self.answer(told, server).await {
                        Ok(()) => {}
                        Err(end) => return end,
                    },
                    Ok(None) if self.has_ended && self.waiting.is_empty() => return End::Done,
                    Ok(None) => return End::Lost(ended_early()),
                    Err(status) => return End::Lost(status),
                },
                () = self.answers.closed() => return End::Done,
            }
        }
    }

    /// Passes an answer on.
    async fn answer(&mut self, told: v1::ExecuteSessionResponse, server: &str) -> Result<(), End> {
        let wrong = |problem: &str| {
            Err(End::Failed(Error::Protocol { server: server.to_owned(), problem: problem.to_owned() }))
        };
        let (id, result) = match told.message {
            Some(Told::Started(_)) => return Ok(()),
            Some(Told::Result(v1::SessionResult { id, result: Some(result) })) => (id, result),
            _ => return wrong("a message without a result"),
        };
        if self.waiting.front().is_none_or(|input| input.id != id) {
            return wrong("an answer to another input than the next");
        }
        self.waiting.pop_front();
        self.answered += 1;
        self.inner.budget.succeed();
        self.answers.send(Ok(Answer { id, result })).await.map_err(|_| End::Done)
    }
}
