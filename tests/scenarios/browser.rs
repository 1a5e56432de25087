//! A page in a real browser, from another origin than the service: it verifies, runs, reads streams and
//! errors, as JSON and as gRPC-web; and a page that nobody named reads nothing.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use antares_proto::v1::{self, Tier};
use antares_tests::guests;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    client::inline,
    server::{PATIENCE, Server},
    transactions::example,
};

/// What the page does; it tells what came of it to the place that it is from.
const PAGE: &str = r#"<!doctype html><script type="module">
const call = (method, type, body) =>
    fetch(`http://API/antares.v1.RunnerService/${method}`, { method: "POST", headers: { "content-type": type }, body });
const asked = async path => await (await fetch(path)).arrayBuffer();
async function all() {
    const verified = await call("VerifyTransaction", "application/json", await asked("/verify"));
    const ran = await call("Execute", "application/grpc-web+proto", await asked("/frame"));
    const session = await call("ExecuteSession", "application/x-ndjson", await asked("/session"));
    const refused = await call("Execute", "application/json", "{\"script\": {\"sha256\": \"00\"}}");
    return {
        verified: await verified.json(),
        frame: Array.from(new Uint8Array(await ran.arrayBuffer())),
        session: (await session.text()).trim().split("\n").map(line => JSON.parse(line)),
        refused: [refused.status, await refused.json()],
    };
}
all().catch(error => ({ failed: error.name })).then(told =>
    fetch("/told", { method: "POST", body: JSON.stringify(told) }));
</script>"#;

/// Where a page comes from, and what it tells.
struct Origin {
    address: String,
    told: Receiver<Value>,
    start: Sender<String>,
}

impl Origin {
    /// Serves once it knows where the service is.
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ((start, started), (tell, told)) = (channel::<String>(), channel());
        thread::spawn(move || {
            let Ok(api) = started.recv() else { return };
            let page = PAGE.replace("API", &api);
            for stream in listener.incoming() {
                let (page, tell) = (page.clone(), tell.clone());
                // A browser opens connections that it does not use.
                thread::spawn(move || serve(&stream.unwrap(), &page, &tell));
            }
        });
        Self { address, told, start }
    }

    /// What its page tells in a browser, where the service is at `api`.
    fn browse(&self, api: &str) -> Value {
        self.start.send(api.to_owned()).unwrap();
        let _browser = Browser::open(&format!("http://{}/", self.address));
        self.told.recv_timeout(PATIENCE).expect("the page says what came of it")
    }
}

/// Path and body of the request on a connection; none if nothing comes, since a browser opens connections
/// that it does not use.
pub(crate) fn request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let path = line.split(' ').nth(1).unwrap().to_owned();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some((path, body))
}

/// One connection; requests that a browser makes of the pages here.
fn serve(stream: &TcpStream, page: &str, tell: &Sender<Value>) {
    let Some((path, body)) = request(stream) else { return };
    let answer = match path.as_str() {
        "/" => page.as_bytes().to_vec(),
        "/verify" => json!({ "mockJson": STANDARD.encode(example("mock_tx.json")) }).to_string().into_bytes(),
        "/frame" => frame(),
        "/session" => session().into_bytes(),
        "/told" => {
            let _ = tell.send(serde_json::from_slice(&body).unwrap());
            Vec::new()
        }
        _ => Vec::new(),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let mut writer = stream;
    let _ = writer.write_all(&[head.as_bytes(), &answer].concat());
}

/// A run in gRPC-web.
fn frame() -> Vec<u8> {
    let message = inline(&guests::bytes("exit-imc").unwrap(), &["5"], Tier::Auto).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat()
}

/// A session with one run.
fn session() -> String {
    let script = STANDARD.encode(guests::bytes("exit-imc").unwrap());
    let input = json!({ "input": { "id": "3", "input": { "args": [STANDARD.encode("7")] } } });
    format!("{}\n{input}\n", json!({ "start": { "script": { "elf": script } } }))
}

/// Chromium with a profile of its own, without a window.
pub(crate) struct Browser {
    process: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let process = command.spawn().expect("Debian's package chromium: scripts/setup.sh test");
        Self { process, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.process.wait();
    }
}

#[test]
fn a_page_of_a_named_origin_verifies_and_another_reads_nothing() {
    let (named, stranger) = (Origin::new(), Origin::new());
    let data = tempfile::tempdir().unwrap();
    let section = format!("[web]\naddress = \"127.0.0.1:0\"\norigins = [\"http://{}\"]\n", named.address);
    let server = Server::start_with(&data, &section);
    let api = server.web.clone().unwrap();

    let told = named.browse(&api);
    assert_eq!(told["failed"], Value::Null, "{told}");
    assert_eq!(told["verified"]["outcome"], "VERIFY_OUTCOME_OK", "{}", told["verified"]);
    assert_eq!(told["verified"]["cycles"], "1686515");
    let frame: Vec<u8> = serde_json::from_value(told["frame"].clone()).unwrap();
    let length = u32::from_be_bytes(frame[1..5].try_into().unwrap()) as usize;
    let response = v1::ExecuteResponse::decode(&frame[5..5 + length]).unwrap();
    assert_eq!(response.verdict.unwrap().exit_code, Some(5));
    assert!(String::from_utf8_lossy(&frame[5 + length..]).contains("grpc-status:0"));
    assert_eq!(told["session"][1]["result"]["result"]["verdict"]["exitCode"], 7, "{}", told["session"]);
    assert_eq!(told["refused"][0], 400, "{}", told["refused"]);
    assert_eq!(told["refused"][1]["error"]["status"], "INVALID_ARGUMENT", "{}", told["refused"]);

    assert_eq!(stranger.browse(&api), json!({ "failed": "TypeError" }));
}
