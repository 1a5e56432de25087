//! JSON-RPC 2.0: single and batched calls, with answers in the order of the calls.

use std::{collections::HashMap, fmt, marker::PhantomData};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer as _,
    de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, json};

use crate::{
    error::{NodeError, NodeRequest},
    limits::{BATCH_CALLS_MAX, MESSAGE_CHARS_MAX},
    transport::Transport,
};

/// Calls of one method.
pub(crate) struct Calls {
    pub(crate) method: &'static str,
    /// Parameters of each call.
    pub(crate) parameters: Vec<Vec<Value>>,
}

impl Calls {
    /// The request of the call with this number.
    fn request(&self, number: usize) -> NodeRequest {
        let first = self.parameters.get(number).and_then(|parameters| parameters.first());
        let of = match first {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        NodeRequest::new(self.method, of)
    }

    fn body(&self, number: usize) -> Value {
        json!({ "jsonrpc": "2.0", "id": number, "method": self.method, "params": self.parameters[number] })
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    /// The number of the call; null if the node could not parse the call.
    id: Option<u64>,
    result: Option<T>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
#[serde(from = "Value")]
struct Refusal {
    code: i64,
    message: String,
}

impl From<Value> for Refusal {
    /// Providers send errors in other forms too, such as text alone; those count as server errors.
    fn from(error: Value) -> Self {
        let message = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
        Self { code: error["code"].as_i64().unwrap_or(-32_000), message }
    }
}

/// The answer to one call; `None` if it is null.
pub(crate) async fn call<T: DeserializeOwned>(
    transport: &Transport,
    method: &'static str,
    parameters: Vec<Value>,
) -> Result<Option<T>, NodeError> {
    let calls = Calls { method, parameters: vec![parameters] };
    one(transport, &calls, 0).await
}

/// The answer to one of many calls.
async fn one<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
    number: usize,
) -> Result<Option<T>, NodeError> {
    let mut retries = transport.retries();
    loop {
        let answer = once(transport, calls, number).await;
        if !retries.is_left(answer.as_ref().err()).await {
            return answer;
        }
    }
}

async fn once<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
    number: usize,
) -> Result<Option<T>, NodeError> {
    let bytes = transport.post(calls.method, calls.body(number).to_string().into()).await?;
    let answer: Answer<T> =
        serde_json::from_slice(&bytes).map_err(|error| transport.senseless(calls.method, error))?;
    match answer.error {
        Some(refusal) => Err(refused(transport, calls.request(number), refusal)),
        None if answer.id != Some(number as u64) => Err(transport.senseless(calls.method, "another id")),
        None => Ok(answer.result),
    }
}

/// Maps the answers to all calls by `take`, in order. Passes each answer on as soon as it is parsed, and stores
/// none, because answers may be many and long.
pub(crate) async fn batch<T: DeserializeOwned, U>(
    transport: &Transport,
    calls: &Calls,
    mut take: impl FnMut(usize, Option<T>) -> Result<U, NodeError>,
) -> Result<Vec<U>, NodeError> {
    let mut all = Vec::with_capacity(calls.parameters.len());
    let numbers: Vec<usize> = (0..calls.parameters.len()).collect();
    for part in numbers.chunks(BATCH_CALLS_MAX) {
        let mut retries = transport.retries();
        let together = loop {
            let together = match part {
                [_] => Ok(None),
                _ => batch_of(transport, calls, part, &mut take).await,
            };
            if !retries.is_left(together.as_ref().err()).await {
                break together?;
            }
        };
        if let Some(taken) = together {
            all.extend(taken);
            continue;
        }
        for number in part {
            all.push(take(*number, one(transport, calls, *number).await?)?);
        }
    }
    Ok(all)
}

/// `None` if the node does not support the batch.
async fn batch_of<T: DeserializeOwned, U>(
    transport: &Transport,
    calls: &Calls,
    part: &[usize],
    take: &mut impl FnMut(usize, Option<T>) -> Result<U, NodeError>,
) -> Result<Option<Vec<U>>, NodeError> {
    let body: Vec<Value> = part.iter().map(|number| calls.body(*number)).collect();
    let body = Bytes::from(Value::Array(body).to_string());
    let bytes = match transport.post(calls.method, body).await {
        Err(NodeError::TooLong { .. }) => return Ok(None),
        bytes => bytes?,
    };
    if !bytes.trim_ascii_start().starts_with(b"[") {
        let answer: Answer<IgnoredAny> =
            serde_json::from_slice(&bytes).map_err(|error| transport.senseless(calls.method, error))?;
        return match answer.error {
            Some(refusal) => match refused(transport, calls.request(part[0]), refusal) {
                later if later.is_passing() => Err(later),
                // The node does not accept batches, or none of this length.
                _ => Ok(None),
            },
            None => Err(transport.senseless(calls.method, "one answer to many calls")),
        };
    }
    let mut by_number: HashMap<usize, Option<U>> = HashMap::with_capacity(part.len());
    // The error of the first failed call, independent of the order of answers.
    let mut wrong: Option<(usize, NodeError)> = None;
    let heard = |answer: Answer<T>| {
        let number = answer.id.and_then(|id| part.iter().find(|number| **number as u64 == id).copied());
        let number = number.ok_or_else(|| transport.senseless(calls.method, "an id that no call has"))?;
        let taken = match answer.error {
            Some(refusal) => Err(refused(transport, calls.request(number), refusal)),
            None => take(number, answer.result),
        };
        let (taken, error) =
            taken.map_or_else(|error| (None, Some((number, error))), |taken| (Some(taken), None));
        wrong = wrong.take().into_iter().chain(error).min_by_key(|(number, _)| *number);
        let is_second = by_number.insert(number, taken).is_some();
        if is_second { Err(transport.senseless(calls.method, "two answers to one call")) } else { Ok(()) }
    };
    each_answer(transport, calls.method, &bytes, heard)?;
    if by_number.len() < part.len() {
        return Err(transport.senseless(calls.method, "a call of the batch has no answer"));
    }
    match wrong {
        Some((_, error)) => Err(error),
        // All answers are present: each was taken.
        None => Ok(Some(part.iter().filter_map(|number| by_number.remove(number).flatten()).collect())),
    }
}

/// Passes each answer in `bytes` to `heard` before parsing the next one.
fn each_answer<T: DeserializeOwned>(
    transport: &Transport,
    method: &'static str,
    bytes: &[u8],
    heard: impl FnMut(Answer<T>) -> Result<(), NodeError>,
) -> Result<(), NodeError> {
    struct Answers<'a, T, F> {
        heard: F,
        failed: &'a mut Option<NodeError>,
        of: PhantomData<T>,
    }

    impl<'de, T, F> Visitor<'de> for Answers<'_, T, F>
    where
        T: DeserializeOwned,
        F: FnMut(Answer<T>) -> Result<(), NodeError>,
    {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("answers")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut answers: A) -> Result<(), A::Error> {
            while let Some(answer) = answers.next_element()? {
                if let Err(error) = (self.heard)(answer) {
                    *self.failed = Some(error);
                    return Err(A::Error::custom("an answer is invalid"));
                }
            }
            Ok(())
        }
    }

    let mut failed = None;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let visitor = Answers { heard, failed: &mut failed, of: PhantomData };
    let read = reader.deserialize_seq(visitor).and_then(|()| reader.end());
    match (failed, read) {
        (Some(error), _) => Err(error),
        (None, read) => read.map_err(|error| transport.senseless(method, error)),
    }
}

fn refused(transport: &Transport, request: NodeRequest, refusal: Refusal) -> NodeError {
    let message = refusal.message.chars().take(MESSAGE_CHARS_MAX).collect();
    NodeError::Refused { url: transport.name().to_owned(), request, code: refusal.code, message }
}
