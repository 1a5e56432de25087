//! A page in a real browser, from another origin than the service: it verifies, runs, reads streams and
//! errors, as JSON and as gRPC-web. A page from an unlisted origin can read nothing.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, Sender, channel},
    },
};

use antares_proto::v1::{self, Tier};
use antares_tests::{
    guests,
    s3::{self, Request, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    client::inline,
    server::{PATIENCE, Server},
    transactions::example,
};

/// The page; it reports its results to its origin.
const PAGE: &str = include_str!("browser.html");

/// The origin of a page, and the reported results.
struct Origin {
    url: String,
    reported: Receiver<Value>,
    api: Arc<OnceLock<String>>,
}

impl Origin {
    /// Serves as soon as the service's address is known.
    fn new() -> Self {
        let ((tell, reported), api) = (channel(), Arc::<OnceLock<String>>::default());
        let served = api.clone();
        let url = s3::server(move |request| answer(request, served.wait(), &tell));
        Self { url, reported, api }
    }

    /// Results of the page in a browser, with the service at `api`.
    fn browse(&self, api: &str) -> Value {
        self.api.set(api.to_owned()).unwrap();
        let _browser = Browser::open(&self.url);
        self.reported.recv_timeout(PATIENCE).expect("the page says what came of it")
    }
}

/// A page with a body for a browser.
pub(crate) fn page(body: impl Into<Vec<u8>>) -> Response {
    let headers = "content-type: text/html\r\n".to_owned();
    Response { status: 200, headers, body: body.into(), ..Response::default() }
}

/// The response to a browser's request for a page.
fn answer(request: &Request, api: &str, tell: &Sender<Value>) -> Response {
    page(match request.target().0 {
        "/" => PAGE.replace("API", api).into_bytes(),
        "/verify" => json!({ "mockJson": STANDARD.encode(example("mock_tx.json")) }).to_string().into_bytes(),
        "/frame" => frame(),
        "/session" => session().into_bytes(),
        "/told" => {
            let _ = tell.send(serde_json::from_slice(&request.body).unwrap());
            Vec::new()
        }
        _ => Vec::new(),
    })
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

/// Chromium with its own profile, without a window.
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
    let section = format!("[web]\naddress = \"127.0.0.1:0\"\norigins = [{:?}]\n", named.url);
    let server = Server::start_with(&data, &section);
    let api = server.web.clone().unwrap();

    let reported = named.browse(&api);
    assert_eq!(reported["failed"], Value::Null, "{reported}");
    assert_eq!(reported["verified"]["outcome"], "VERIFY_OUTCOME_OK", "{}", reported["verified"]);
    assert_eq!(reported["verified"]["cycles"], "1686515");
    let frame: Vec<u8> = serde_json::from_value(reported["frame"].clone()).unwrap();
    let length = u32::from_be_bytes(frame[1..5].try_into().unwrap()) as usize;
    let response = v1::ExecuteResponse::decode(&frame[5..5 + length]).unwrap();
    assert_eq!(response.verdict.unwrap().exit_code, Some(5));
    assert!(String::from_utf8_lossy(&frame[5 + length..]).contains("grpc-status:0"));
    assert_eq!(
        reported["session"][1]["result"]["result"]["verdict"]["exitCode"], 7,
        "{}",
        reported["session"]
    );
    assert_eq!(reported["refused"][0], 400, "{}", reported["refused"]);
    assert_eq!(reported["refused"][1]["error"]["status"], "INVALID_ARGUMENT", "{}", reported["refused"]);

    assert_eq!(stranger.browse(&api), json!({ "failed": "TypeError" }));
}
