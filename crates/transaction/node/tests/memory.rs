//! The peak memory of a lookup is bounded, whatever the node answers.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::Arc,
    thread,
};

use antares_node::{ChainNode, NodeOptions};
use ckb_types::{
    core::{TransactionBuilder, TransactionView},
    packed::{CellInput, CellOutput, OutPoint},
    prelude::*,
};
use serde_json::Value;

/// The limit in a server.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The chart's memory for each lookup in a pod.
const LOOKUP_BYTES_MAX: u64 = 96 << 20;

/// A node that answers each call with the pieces that `say` returns for its first parameter, without copies.
fn node(say: impl Fn(&str) -> Vec<Arc<str>> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let say = Arc::new(say);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let say = say.clone();
            thread::spawn(move || while answer(&stream, &*say).is_some() {});
        }
    });
    url
}

fn answer(stream: &TcpStream, say: &impl Fn(&str) -> Vec<Arc<str>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let one = |call: &Value| {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", call["id"]);
        let mut pieces: Vec<Arc<str>> = vec![head.into()];
        pieces.extend(say(call["params"][0].as_str().unwrap()));
        pieces.push("}".into());
        pieces
    };
    let pieces: Vec<Arc<str>> = match &request {
        Value::Array(calls) => {
            let begin = |number: usize| if number == 0 { "[" } else { "," };
            let each = calls
                .iter()
                .enumerate()
                .flat_map(|(number, call)| std::iter::once(begin(number).into()).chain(one(call)));
            each.chain([Arc::from("]")]).collect()
        }
        call => one(call),
    };
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut stream = stream;
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").ok()?;
    pieces.iter().try_for_each(|piece| stream.write_all(piece.as_bytes())).ok()
}

/// A transaction that uses one cell of each of `made`.
fn using(made: impl Iterator<Item = TransactionView>) -> TransactionView {
    let inputs = made.map(|made| CellInput::new(OutPoint::new(made.hash(), 0), 0));
    TransactionBuilder::default().inputs(inputs).build()
}

fn committed(transaction: &str) -> Vec<Arc<str>> {
    let status = format!(
        "\"cycles\":null,\"tx_status\":{{\"status\":\"committed\",\"block_hash\":\"0x{}\",\"block_number\":\"0x1\",\"reason\":null}}}}",
        "11".repeat(32)
    );
    vec!["{\"transaction\":".into(), transaction.into(), ",".into(), status.into()]
}

/// A line of this process's kernel status, in bytes.
fn status(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|of| of.strip_prefix(line)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Peak memory of a resolution beyond the initial memory, and its error.
fn peak(url: &str, transaction: &TransactionView) -> (u64, String) {
    let options =
        NodeOptions { answer_bytes_max: ANSWER_BYTES_MAX, memory_bytes_max: 0, ..NodeOptions::default() };
    let node = ChainNode::new(url, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    let result = runtime.block_on(node.resolve_for_scripts(transaction));
    let taken = status("VmHWM:").saturating_sub(before);
    (taken, result.err().map(|error| error.to_string()).unwrap_or_default())
}

/// Environment variable that selects a process's case.
const CASE: &str = "LOOKUP_CASE";

/// Bytes of the longest list's text.
const LIST_BYTES: usize = 65_536 * 5;

/// The lie of a node in this case, and a part of the expected error.
fn lie(case: &str) -> (String, &'static str) {
    let list = |bytes: usize| vec!["\"0x\""; bytes / 5].join(",");
    let json = |data: &str, witnesses: &str| {
        format!(
            "{{\"version\":\"0x0\",\"cell_deps\":[],\"header_deps\":[],\"inputs\":[],\"outputs\":[],\
             \"outputs_data\":[{data}],\"witnesses\":[{witnesses}]}}"
        )
    };
    let room = ANSWER_BYTES_MAX - 2_000;
    match case {
        "digits" => (format!("\"0x{}\"", "00".repeat(room / 2)), "something else"),
        "endless list" => (json("", &list(room)), "at most 65536 entries"),
        // More lists than fit into one answer.
        "many lists" => (json(&list(LIST_BYTES), &list(LIST_BYTES)), "something else"),
        _ => (String::new(), "bytes of transactions that made its cells"),
    }
}

/// Runs one case: first valid transactions, then the lie.
#[test]
#[ignore = "the test below runs it in a process of its own, whose peak it is"]
fn one_case() {
    let case = std::env::var(CASE).unwrap();
    let (form, word) = lie(&case);
    // About 38 MiB, or more than the limit.
    let honest = if form.is_empty() { 240 } else { 80 };
    let long: Vec<_> = (0..honest).map(|number| made(number, 500_000)).collect();
    let lied_about = (honest..honest + 16).map(|number| made(number, 4));
    let all: Vec<_> = long.iter().cloned().chain(lied_about).collect();
    let mut whole: HashMap<String, Vec<Arc<str>>> = HashMap::new();
    for made in &long {
        let digits: String = made.data().as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
        whole.insert(format!("{:#x}", made.hash()), committed(&format!("\"0x{digits}\"")));
    }
    let lie = committed(&form);
    let url = node(move |hash| whole.get(hash).unwrap_or(&lie).clone());
    let (taken, said) = peak(&url, &using(all.into_iter()));
    assert!(said.contains(word), "{said}");
    println!("{case}: {} KiB", taken >> 10);
    assert!(taken <= LOOKUP_BYTES_MAX, "{case}: {} KiB", taken >> 10);
}

fn made(number: u32, bytes: usize) -> TransactionView {
    let data = number.to_le_bytes().repeat(bytes / 4);
    TransactionBuilder::default().output(CellOutput::default()).output_data(data.pack()).build()
}

#[test]
fn a_lookup_has_a_bound_whatever_the_node_says() {
    for case in ["honest", "digits", "endless list", "many lists"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "one_case", "--ignored", "--nocapture"]).env(CASE, case);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{case}: {said}");
        said.lines().filter(|line| line.contains("KiB")).for_each(|line| println!("{line}"));
    }
}
