//! The node: HTTP/1.1 over a socket, with a thread for each connection.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{Chain, methods};

/// A fault on the wire of one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This HTTP status.
    Status(u16),
    /// The connection closes after this many bytes of the response's body.
    Cut(usize),
    /// The connection closes at once.
    Closed,
    /// An endless body.
    Endless,
    /// No response until the client disconnects.
    Silent,
    /// This body for any request.
    Body(String),
}

/// Changes an answer: method, parameters, result.
type Lie = Box<dyn FnMut(&str, &Value, &mut Value) + Send>;

struct State {
    chain: Chain,
    faults: VecDeque<Fault>,
    lie: Option<Lie>,
    batch_max: usize,
    /// Switches to this chain at a call with this method and first parameter.
    next: Option<(String, String, Chain)>,
    /// Methods of all calls.
    calls: Vec<String>,
}

pub struct TestNode {
    pub url: String,
    state: Arc<Mutex<State>>,
    requests: Arc<AtomicU64>,
    has_ended: Arc<AtomicBool>,
}

impl TestNode {
    /// Serves `chain` on a port that the kernel chooses.
    #[must_use]
    pub fn start(chain: Chain) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (faults, calls) = (VecDeque::new(), Vec::new());
        let state = State { chain, faults, lie: None, batch_max: usize::MAX, next: None, calls };
        let state = Arc::new(Mutex::new(state));
        let node = Self { url, state, requests: Arc::default(), has_ended: Arc::default() };
        let (state, requests, has_ended) =
            (node.state.clone(), node.requests.clone(), node.has_ended.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let (state, requests, has_ended) = (state.clone(), requests.clone(), has_ended.clone());
                thread::spawn(move || serve(stream, &state, &requests, &has_ended));
            }
        });
        node
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves another chain from now on.
    pub fn reorganise(&self, chain: Chain) {
        self.state().chain = chain;
    }

    /// The same from the next call of `method` whose first parameter is `first`.
    pub fn reorganise_at(&self, method: &str, first: &str, chain: Chain) {
        self.state().next = Some((method.to_owned(), first.to_owned(), chain));
    }

    /// Faults for the next requests, one each.
    pub fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().faults.extend(faults);
    }

    /// Sets a hook that changes responses: `lie` gets method, parameters and result.
    pub fn lie(&self, lie: impl FnMut(&str, &Value, &mut Value) + Send + 'static) {
        self.state().lie = Some(Box::new(lie));
    }

    /// Removes the hook.
    pub fn be_honest(&self) {
        self.state().lie = None;
    }

    /// Refuses longer batches.
    pub fn take_batches_of(&self, calls_max: usize) {
        self.state().batch_max = calls_max;
    }

    /// HTTP requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Methods of all calls since the last query.
    #[must_use]
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Unblocks the thread that waits for a connection.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, requests: &AtomicU64, has_ended: &AtomicBool) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    // Ends with the client, or by a fault.
    while let Ok(Some(body)) = request(&mut reader) {
        requests.fetch_add(1, Ordering::Relaxed);
        let (fault, answer) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let fault = state.faults.pop_front();
            let answer = match fault {
                None | Some(Fault::Cut(_)) => answer(&mut state, &body),
                // The others discard the answer.
                Some(_) => String::new(),
            };
            (fault, answer)
        };
        let is_kept = match fault {
            None => write_answer(&mut writer, 200, answer.as_bytes()).is_ok(),
            Some(Fault::Status(status)) => write_answer(&mut writer, status, b"").is_ok(),
            Some(Fault::Body(body)) => write_answer(&mut writer, 200, body.as_bytes()).is_ok(),
            Some(Fault::Cut(bytes)) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                let part = &answer.as_bytes()[..bytes.min(answer.len().saturating_sub(1))];
                let _ = writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(part));
                false
            }
            Some(Fault::Closed) => false,
            Some(Fault::Endless) => {
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut is_read = writer.write_all(head).is_ok();
                let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
                while is_read && !has_ended.load(Ordering::Relaxed) {
                    is_read = writer.write_all(&chunk).is_ok();
                }
                false
            }
            Some(Fault::Silent) => {
                // Waits until the client disconnects.
                let _ = reader.read(&mut [0]);
                false
            }
        };
        if !is_kept {
            return;
        }
    }
}

/// The body of the next request; none if the client has disconnected.
fn request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    let mut is_first = true;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() && !is_first {
            break;
        }
        is_first = false;
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

fn write_answer(writer: &mut TcpStream, status: u16, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes())?;
    writer.write_all(body)
}

fn answer(state: &mut State, body: &[u8]) -> String {
    let asked: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let reported = match asked {
        Value::Array(calls) if calls.len() > state.batch_max => {
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "batch too long" } })
        }
        // In reverse order, which JSON-RPC allows.
        Value::Array(calls) => Value::Array(calls.iter().rev().map(|call| one(state, call)).collect()),
        call => one(state, &call),
    };
    reported.to_string()
}

fn one(state: &mut State, call: &Value) -> Value {
    let (method, params) = (call["method"].as_str().unwrap_or_default(), &call["params"]);
    state.calls.push(method.to_owned());
    if let Some((_, _, chain)) = state.next.take_if(|(of, first, _)| of == method && params[0] == **first) {
        state.chain = chain;
    }
    match methods::answer(&state.chain, method, params) {
        Ok(mut result) => {
            if let Some(lie) = &mut state.lie {
                lie(method, params, &mut result);
            }
            json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
        }
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } })
        }
    }
}
