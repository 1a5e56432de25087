//! JSON-RPC 2.0: calls alone and in batches, with answers in the order of the calls.

use std::collections::HashMap;

use bytes::Bytes;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};

use crate::{
    error::{Asked, NodeError},
    limits::{BATCH_CALLS_MAX, MESSAGE_CHARS_MAX},
    transport::Transport,
};

/// Calls of one method.
pub(crate) struct Calls {
    pub(crate) method: &'static str,
    /// Parameters of each.
    pub(crate) parameters: Vec<Vec<Value>>,
}

impl Calls {
    /// What the call with this number asks.
    fn asked(&self, number: usize) -> Asked {
        let first = self.parameters.get(number).and_then(|parameters| parameters.first());
        let of = match first {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Asked::new(self.method, of)
    }

    fn request(&self, number: usize) -> Value {
        json!({ "jsonrpc": "2.0", "id": number, "method": self.method, "params": self.parameters[number] })
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    /// A number is all that calls have here; null where a node could not read the call.
    id: Option<u64>,
    result: Option<T>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    message: String,
}

/// The answer to one call; `None` is the node's null.
pub(crate) async fn call<T: DeserializeOwned>(
    transport: &Transport,
    method: &'static str,
    parameters: Vec<Value>,
) -> Result<Option<T>, NodeError> {
    let calls = Calls { method, parameters: vec![parameters] };
    one(transport, &calls, 0).await
}

async fn one<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
    number: usize,
) -> Result<Option<T>, NodeError> {
    let bytes = transport.post(calls.method, calls.request(number).to_string().into()).await?;
    let answer: Answer<T> = parse(transport, calls.method, &bytes)?;
    let senseless = |detail: &str| senseless(transport, calls.method, detail);
    match answer.error {
        Some(refusal) => Err(refused(transport, calls.asked(number), refusal)),
        None if answer.id != Some(number as u64) => Err(senseless("it has another id than the call")),
        None => Ok(answer.result),
    }
}

/// The answers to all calls, in their order.
pub(crate) async fn batch<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
) -> Result<Vec<Option<T>>, NodeError> {
    let mut all = Vec::with_capacity(calls.parameters.len());
    let numbers: Vec<usize> = (0..calls.parameters.len()).collect();
    for part in numbers.chunks(BATCH_CALLS_MAX) {
        match part {
            [number] => all.push(one(transport, calls, *number).await?),
            part => all.extend(batch_of(transport, calls, part).await?),
        }
    }
    Ok(all)
}

async fn batch_of<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
    part: &[usize],
) -> Result<Vec<Option<T>>, NodeError> {
    let body: Vec<Value> = part.iter().map(|number| calls.request(*number)).collect();
    let body = Bytes::from(Value::Array(body).to_string());
    let bytes = match transport.post(calls.method, body).await {
        // The calls may be answered one after the other.
        Err(NodeError::TooLong { .. }) => return each(transport, calls, part).await,
        bytes => bytes?,
    };
    if !bytes.trim_ascii_start().starts_with(b"[") {
        let answer: Answer<IgnoredAny> = parse(transport, calls.method, &bytes)?;
        return match answer.error {
            // It takes no batches, or none as long.
            Some(_) => each(transport, calls, part).await,
            None => Err(senseless(transport, calls.method, "one answer to many calls")),
        };
    }
    let answers: Vec<Answer<T>> = parse(transport, calls.method, &bytes)?;
    let mut by_id: HashMap<u64, Answer<T>> = HashMap::with_capacity(part.len());
    for answer in answers {
        let id = answer.id.filter(|id| part.iter().any(|number| *number as u64 == *id));
        let Some(id) = id else { return Err(senseless(transport, calls.method, "an id that no call has")) };
        if by_id.insert(id, answer).is_some() {
            return Err(senseless(transport, calls.method, "two answers to one call"));
        }
    }
    let mut all = Vec::with_capacity(part.len());
    for number in part {
        match by_id.remove(&(*number as u64)) {
            Some(Answer { error: Some(refusal), .. }) => {
                return Err(refused(transport, calls.asked(*number), refusal));
            }
            Some(answer) => all.push(answer.result),
            None => return Err(senseless(transport, calls.method, "a call of the batch has no answer")),
        }
    }
    Ok(all)
}

async fn each<T: DeserializeOwned>(
    transport: &Transport,
    calls: &Calls,
    part: &[usize],
) -> Result<Vec<Option<T>>, NodeError> {
    let mut all = Vec::with_capacity(part.len());
    for number in part {
        all.push(one(transport, calls, *number).await?);
    }
    Ok(all)
}

fn parse<T: DeserializeOwned>(
    transport: &Transport,
    method: &'static str,
    bytes: &[u8],
) -> Result<T, NodeError> {
    serde_json::from_slice(bytes).map_err(|error| senseless(transport, method, &error.to_string()))
}

fn senseless(transport: &Transport, method: &'static str, detail: &str) -> NodeError {
    NodeError::Senseless { url: transport.name().to_owned(), method, detail: detail.to_owned() }
}

fn refused(transport: &Transport, asked: Asked, refusal: Refusal) -> NodeError {
    let message = refusal.message.chars().take(MESSAGE_CHARS_MAX).collect();
    NodeError::Refused { url: transport.name().to_owned(), asked, code: refusal.code, message }
}
