//! One call with all its attempts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1::runner_service_client::RunnerServiceClient;
use tonic::{Request, Status};

use crate::{
    Error,
    balance::{Balance, Lease, Server},
    connect::KEEPALIVE,
    credentials::{Connection, Credentials},
    retry::{Budget, CALLS, Retry},
    status::{Advice, is_well, late},
    upload::Upload,
};

/// Longest answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// State that all clones of a client share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) servers: Balance,
    pub(crate) budget: Budget,
    pub(crate) credentials: Credentials,
}

/// A server for one attempt, and the metadata of every message to it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) inner: Arc<Inner>,
    pub(crate) server: Arc<Server>,
    pub(crate) until: Instant,
}

impl Link {
    fn connection(&self) -> Connection {
        self.inner.credentials.on(self.server.channel())
    }

    fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(crate) fn runner(&self) -> RunnerServiceClient<Connection> {
        RunnerServiceClient::new(self.connection()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Without retries: the rule for all calls repeats the whole call elsewhere.
    pub(crate) fn upload(&self) -> Upload {
        Upload { connection: self.connection(), call_time_max: self.time_left(), retry: Retry::NEVER }
    }

    /// `message`, with the call's remaining time.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.time_left());
        request
    }
}

/// An unanswered attempt: the first has the number 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) began: Instant,
}

impl Inner {
    /// Repeats `attempt` until there is an answer, or none is possible within `deadline`.
    pub(crate) async fn call<T, F>(
        self: &Arc<Self>,
        deadline: Duration,
        attempt: impl Fn(Link) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let until = Instant::now() + deadline;
        let mut attempts = 0;
        let mut last: Option<String> = None;
        loop {
            let (lease, began) = (self.servers.least_busy(last.as_deref()), Instant::now());
            let link = Link { inner: self.clone(), server: lease.0.clone(), until };
            let answer = tokio::time::timeout_at(until.into(), attempt(link)).await;
            attempts += 1;
            let status = match answer {
                Ok(Ok(answer)) => {
                    self.budget.succeed();
                    return Ok(answer);
                }
                Ok(Err(status)) => status,
                Err(_) => late(),
            };
            let server = lease.0.name().to_owned();
            let wait = self.wait(&status, &lease, Attempt { number: attempts, began });
            match wait.filter(|wait| Instant::now() + *wait < until) {
                Some(wait) => {
                    // The wait must not count as load on the server.
                    drop(lease);
                    tokio::time::sleep(wait).await;
                    last = Some(server);
                }
                None => return Err(Error::Status { server, status: Box::new(status), attempts }),
            }
        }
    }

    /// Wait before the next attempt; none if `status` is the answer.
    pub(crate) fn wait(&self, status: &Status, lease: &Lease, attempt: Attempt) -> Option<Duration> {
        let Attempt { number, began } = attempt;
        let asked = match Advice::of(status) {
            Advice::No => {
                if is_well(status) {
                    self.budget.succeed();
                }
                return None;
            }
            Advice::Elsewhere => {
                lease.0.circuit().open();
                // A server that dies loses all its calls at once, and each may try another one.
                if number == 1 {
                    return Some(CALLS.pause(0));
                }
                // A connection ended by keepalive says nothing about the next one: a stopped process accepts
                // any number. The second silence is the answer.
                if began.elapsed() >= KEEPALIVE * 2 {
                    return None;
                }
                Duration::ZERO
            }
            Advice::Wait(time) => time,
        };
        (self.budget.fail() && number < CALLS.attempts_max).then(|| asked + CALLS.pause(number - 1))
    }
}
