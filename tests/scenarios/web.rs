//! JSON over HTTP, as curl sends it: the same verdicts and errors as over gRPC, and nothing for pages of
//! unlisted origins. Browser tests cover gRPC-web.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Shutdown, TcpStream},
    process::{Command, Stdio},
};

use antares_chain::exits;
use antares_proto::v1::Tier;
use antares_tests::{authorities::Authority, guests};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    client::{Client, digest, inline, verification},
    identity::{Issuer, claims},
    server::{PATIENCE, Server, started, until},
    tls::section,
    transactions::with_lock,
};

const RUNNER: &str = "antares.v1.RunnerService";
const COMPILER: &str = "antares.v1.CompilerService";
const WEB: &str = "[web]\naddress = \"127.0.0.1:0\"\norigins = [\"https://app.example\"]\n";
const JSON: &str = "content-type: application/json";
const LINES: &str = "content-type: application/x-ndjson";

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn reason(&self) -> String {
        let error = self.json();
        let details = error["error"]["details"].as_array().unwrap().clone();
        details.iter().find_map(|detail| Some(detail.get("reason")?.as_str()?.to_owned())).unwrap_or_default()
    }
}

/// Sends `body` to `path` with curl and additional arguments.
fn curl(server: &Server, path: &str, words: &[&str], body: &[u8]) -> Answer {
    curl_at("http", server, path, words, body)
}

fn curl_at(scheme: &str, server: &Server, path: &str, words: &[&str], body: &[u8]) -> Answer {
    let url = format!("{scheme}://{}/{path}", server.web.as_ref().unwrap());
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "100", "--expect100-timeout", "0.1"])
        .args(["--data-binary", "@-"])
        .args(words)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    curl.stdin.take().unwrap().write_all(body).unwrap();
    let output = curl.wait_with_output().unwrap();
    assert!(output.status.success(), "curl {words:?} {path}");
    let mut bytes = &output.stdout[..];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).unwrap().trim().parse().unwrap();
        bytes = &bytes[end + 4..];
        if status != 100 {
            return Answer { status, head, body: bytes.to_vec() };
        }
    }
}

/// Asserts the status, and gRPC's reason.
#[track_caller]
fn is(answer: &Answer, status: u16, reason: &str) {
    assert_eq!((answer.status, answer.reason().as_str()), (status, reason));
}

fn send(server: &Server, method: &str, body: &Value) -> Answer {
    curl(server, method, &["-H", JSON], body.to_string().as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_runs_verifies_uploads_and_compiles() {
    let (_data, server) = started(WEB);
    let health = send(&server, "grpc.health.v1.Health/Check", &json!({}));
    assert_eq!((health.status, health.json()), (200, json!({"status": "SERVING"})));

    let script = guests::bytes("exit-imc").unwrap();
    let encoded = STANDARD.encode(&script);
    let run = json!({"script": {"elf": encoded}, "textArgs": ["7"], "tier": "TIER_INTERPRETER"});
    let answer = send(&server, &format!("{RUNNER}/Execute"), &run);
    let client = Client::connect(&server).await;
    let expected = client.execute(inline(&script, &["7"], Tier::Interpreter)).await.unwrap().verdict.unwrap();
    let verdict = &answer.json()["verdict"];
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    assert_eq!((&verdict["outcome"], &verdict["exitCode"]), (&json!("OUTCOME_EXIT"), &json!(7)));
    assert_eq!(verdict["cycles"], json!(expected.cycles.to_string()));

    let mock = with_lock(&exits(0));
    let verify = json!({"mockJson": STANDARD.encode(&mock)});
    let answer = send(&server, &format!("{RUNNER}/VerifyTransaction"), &verify).json();
    let expected = client.verify(verification(mock, Tier::Auto)).await.unwrap();
    assert_eq!(answer["outcome"], json!(expected.outcome().as_str_name()));
    assert_eq!(answer["cycles"], json!(expected.cycles.to_string()));

    let digest = digest(&script);
    let header = json!({"header": {"sha256": digest, "sizeBytes": script.len().to_string()}});
    let chunks = script.chunks(50_000).map(|chunk| json!({"chunk": STANDARD.encode(chunk)}).to_string());
    let upload: Vec<_> = std::iter::once(header.to_string()).chain(chunks).collect();
    let answer = curl(&server, &format!("{COMPILER}/Upload"), &["-H", LINES], upload.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let answer = send(&server, &format!("{COMPILER}/Compile"), &json!({"scriptSha256": digest}));
    assert_eq!((answer.status, answer.json()["stored"].clone()), (200, json!(true)));
    // They are counted like all calls.
    let metrics = server.get("/metrics");
    let counted = "rpc_server_call_duration_seconds_count{rpc_method=\"antares.v1.CompilerService/Upload\"";
    assert!(metrics.contains(counted), "{metrics}");
    assert!(metrics.contains("antares_connections{listener=\"web\"}"), "{metrics}");
}

#[test]
fn streams_are_lines() {
    let (_data, server) = started(WEB);
    let script = STANDARD.encode(guests::bytes("exit-imc").unwrap());
    let input = |id: u32| json!({"input": {"id": id.to_string(), "input": {"args": [STANDARD.encode(id.to_string())]}}});
    let start = json!({"start": {"script": {"elf": script}}});
    let text = format!("{start}\n{}\n\n{}\n", input(3), input(4));
    let path = format!("{RUNNER}/ExecuteSession");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let answer = curl(&server, &path, &["-H", LINES, version], text.as_bytes());
        let lines = answer.lines();
        assert_eq!((answer.status, lines.len()), (200, 3), "{lines:?}");
        assert!(lines[0].get("started").is_some());
        for (line, id) in lines[1..].iter().zip([3, 4]) {
            assert_eq!(line["result"]["id"], json!(id.to_string()));
            assert_eq!(line["result"]["result"]["verdict"]["exitCode"], json!(id), "{line}");
        }
    }
    // A later error follows the answers to earlier messages.
    let wrong =
        curl(&server, &path, &["-H", LINES], format!("{start}\n{}\n{{\"no\": 1}}\n", input(3)).as_bytes());
    let last = wrong.lines().pop().unwrap();
    assert_eq!(last["error"]["status"], "INVALID_ARGUMENT", "{last}");
}

#[test]
fn what_is_wrong_is_reported_as_http_tells_it() {
    let (_data, server) = started(WEB);
    let execute = format!("{RUNNER}/Execute");
    let missing = send(&server, &execute, &json!({"script": {"sha256": "0".repeat(64)}}));
    is(&missing, 404, "SCRIPT_NOT_FOUND");
    let unknown = send(&server, &execute, &json!({"script": {"sha": 1}}));
    is(&unknown, 400, "MESSAGE_MALFORMED");
    let broken = curl(&server, &execute, &["-H", JSON], b"{\"script\":");
    is(&broken, 400, "MESSAGE_MALFORMED");
    // Its objects would take more than a peer's limit.
    let bomb = format!("{{\"args\":[{}\"\"]}}", "\"\",".repeat(2_000_000));
    let bomb = curl(&server, &execute, &["-H", JSON], bomb.as_bytes());
    is(&bomb, 429, "REQUEST_BYTES");
    assert!(bomb.head.contains("retry-after: 1"), "{}", bomb.head);
    let long = vec![b' '; (20 << 20) + 1];
    let long = curl(&server, &execute, &["-H", JSON], &long);
    is(&long, 413, "MESSAGE_TOO_LARGE");
    for kind in ["text/plain", "application/grpc", "application/x-ndjson", "application/grpc-web-text", ""] {
        let kind = format!("content-type: {kind}");
        assert_eq!(curl(&server, &execute, &["-H", &kind], b"{}").status, 415, "{kind}");
    }
    assert_eq!(curl(&server, &execute, &["-H", JSON, "-H", "content-encoding: gzip"], b"{}").status, 415);
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let answer = curl(&server, &execute, &["-H", JSON, "-X", method], b"{}");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (405, &json!(405)), "{method}");
    }
    // Services for operators and autoscalers are not offered.
    for path in ["", "AdminService/Drain", "StoreService/ListStored", "x/y", "RunnerService/No"] {
        let path = format!("antares.v1.{path}");
        assert_eq!(curl(&server, &path, &["-H", JSON], b"{}").status, 404, "{path}");
    }
    let answer = send(&server, "grpc.health.v1.Health/Check", &json!({}));
    assert_eq!(answer.status, 200, "it is well afterwards");
}

/// The first line of the server's response to these bytes; a truncated body ends there.
fn first_line(server: &Server, bytes: &str) -> String {
    let mut stream = TcpStream::connect(server.web.as_ref().unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    if bytes.contains("content-length: 3") {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn a_request_that_is_cut_or_ambiguous_is_its_caller_s_mistake() {
    let (_data, server) = started(WEB);
    let head = format!("POST /grpc.health.v1.Health/Check HTTP/1.1\r\nhost: x\r\n{JSON}\r\n");
    let (length, chunked) = ("content-length: 2\r\n", "transfer-encoding: chunked\r\n");
    let good = format!("{head}{length}\r\n{{}}");
    assert_eq!(first_line(&server, &good), "HTTP/1.1 200 OK");
    assert_eq!(first_line(&server, &format!("{head}{chunked}\r\n2\r\n{{}}\r\n0\r\n\r\n")), "HTTP/1.1 200 OK");
    let origin = "origin: https://app.example\r\n";
    for bad in [
        format!("{head}{origin}{origin}{length}\r\n{{}}"),
        good.replace("\r\n", "\n"),
        good.replace("host: x\r\n", ""),
        // The last line of a head.
        format!("{head}{chunked}{length}\r\n{{}}"),
        good.replace(": 2", ": -2"),
        // Bodies.
        good.replace("2\r\n", "3\r\n"),
        format!("{head}{chunked}\r\n2;a\nb\r\n{{}}\r\n0\r\n\r\n"),
        format!("{head}{chunked}\r\n2\r\n{{}}\r\n0\r\na: b\n\n"),
        good.replace("2\r\n\r\n{}", "22\r\n\r\n{\"service\":18446744073709551616}"),
    ] {
        assert_eq!(first_line(&server, &bad), "HTTP/1.1 400 Bad Request", "{bad:?}");
    }
    let metrics = server.get("/metrics");
    let codes = metrics
        .lines()
        .filter(|line| line.starts_with("rpc_server_call_duration_seconds_count") && !line.ends_with(" 0"));
    for line in codes {
        let known = ["\"OK\"", "\"CANCELLED\"", "\"INVALID_ARGUMENT\""];
        assert!(known.iter().any(|code| line.contains(code)), "{line}");
    }
}

#[test]
fn pages_that_nobody_named_may_not_call() {
    let (_data, server) = started(WEB);
    let path = "grpc.health.v1.Health/Check";
    let preflight = |origin: &str| {
        let origin = format!("origin: {origin}");
        let names = "access-control-request-headers: authorization, content-type, x-of-the-app";
        let asked =
            ["-H", &origin, "-H", "access-control-request-method: POST", "-H", names, "-X", "OPTIONS"];
        curl(&server, path, &asked, b"")
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.status, 204);
    for line in [
        "access-control-allow-origin: https://app.example",
        "access-control-allow-methods: post",
        "access-control-allow-headers: authorization, content-type, x-of-the-app",
    ] {
        assert!(allowed.head.contains(line), "{line}: {}", allowed.head);
    }
    let call = |origin: &str| curl(&server, path, &["-H", JSON, "-H", &format!("origin: {origin}")], b"{}");
    let answer = call("https://app.example");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("access-control-allow-origin: https://app.example"), "{}", answer.head);
    let strangers =
        ["https://app.example.evil", "http://app.example", "https://app.example:444", "null", "*"];
    for stranger in strangers {
        for answer in [preflight(stranger), call(stranger)] {
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (403, &json!(403)), "{stranger}");
            assert!(!answer.head.contains("access-control"), "{stranger}: {}", answer.head);
        }
    }
}

/// The same calls with authentication: encrypted, with tokens, and within a tenant's quotas.
#[test]
fn callers_are_distinguished_as_over_grpc() {
    let (issuer, authority) = (Issuer::new(), Authority::new("web"));
    let pair = authority.issue("server", "IP:127.0.0.1");
    let more = format!("{}{WEB}[quotas]\nguest_cycles_per_second = 20\n", issuer.section());
    let (_data, server) = started(&section(&pair, &more));
    let ca = authority.certificate();
    let run =
        json!({"script": {"elf": STANDARD.encode(guests::bytes("exit-imc").unwrap())}, "textArgs": ["7"]});
    let execute = |words: &[&str]| {
        let words = [&["-H", JSON, "--cacert", ca.to_str().unwrap()], words].concat();
        curl_at("https", &server, &format!("{RUNNER}/Execute"), &words, run.to_string().as_bytes())
    };
    let missing = execute(&[]);
    is(&missing, 401, "CREDENTIALS_MISSING");
    let bearer = |subject: &str| format!("authorization: Bearer {}", issuer.sign(&claims(subject, |_| {})));
    let forged = execute(&["-H", "authorization: Bearer no.to.ken"]);
    is(&forged, 401, "TOKEN_INVALID");
    assert_eq!(execute(&["-H", &bearer("role/upload")]).status, 403);
    let user = bearer("user/a");
    for (name, version) in [("user/one", "--http1.1"), ("user/two", "--http2")] {
        let answer = execute(&["-H", &bearer(name), version]);
        assert_eq!((answer.status, &answer.json()["verdict"]["exitCode"]), (200, &json!(7)));
    }
    let mut refused = execute(&["-H", &user]);
    until("there is a quota", || {
        refused = execute(&["-H", &user]);
        refused.status != 200
    });
    is(&refused, 429, "QUOTA");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(execute(&["-H", &bearer("user/b")]).status, 200, "quotas are a tenant's own");
}

/// A disconnect frees all resources at once. If request bytes are unread, so that the library sees no end,
/// they are freed at the run's own deadline.
#[test]
fn a_caller_who_leaves_with_half_a_request_behind_frees_all_in_time() {
    // Far longer than the test waits.
    const LATE_MS: u64 = 2_000_000;
    let (_data, server) =
        started(&format!("{WEB}[runner]\ncall_ms_max = {LATE_MS}\ndeadline_ms_max = {LATE_MS}\n"));
    let script = STANDARD.encode(guests::bytes("attack-loop-call").unwrap());
    let call = |method: &str, kind: &str, body: &str| {
        let head = format!("POST /{RUNNER}/{method} HTTP/1.1\r\nhost: x\r\n{kind}\r\n");
        format!("{head}content-length: {}\r\n\r\n{body}", body.len())
    };
    let calls = |deadline_ms: u64| {
        let limits = json!({"maxCycles": "1000000000000", "deadlineMs": deadline_ms.to_string()});
        let run = json!({"script": {"elf": script}, "limits": limits, "tier": "TIER_INTERPRETER"});
        let input = json!({"input": {"id": "1", "input": {}}});
        [
            call("Execute", JSON, &run.to_string()),
            call("ExecuteSession", LINES, &format!("{}\n{input}\n", json!({ "start": run }))),
        ]
    };
    let names =
        ["calls_in_progress", "request_bytes", "workers_busy{role=\"run\"}", "connections{listener=\"web\"}"];
    let held = || names.map(|name| server.metric(&format!("antares_{name}")));
    let leave = |first: &str, behind: usize| {
        let bytes = [first, &first.repeat(2)[..behind]].concat();
        let mut stream = TcpStream::connect(server.web.as_ref().unwrap()).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        until("it runs", || held()[2] > 0.5);
        drop(stream);
        until("all is free", || held() == [0.0; 4]);
    };
    calls(LATE_MS).iter().for_each(|first| leave(first, 0));
    for first in &calls(2_000) {
        for behind in [1, 60, first.len() / 2, first.len() - 1, 2 * first.len()] {
            leave(first, behind);
        }
    }
}
