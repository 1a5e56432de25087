//! A greedy client takes all connections, calls and request bytes that it can get. Others get their answers
//! in time, and memory stays within its budgets. Each client has its own address on the loopback network.

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use antares_proto::v1::{self, Tier};
use antares_tests::guests;
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpSocket,
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{
    Code,
    body::Body,
    transport::{Channel, Endpoint},
};
use tower::{Service as _, ServiceExt as _, service_fn};

use crate::{
    client::{Client, Token, exit_code, inline, is},
    server::{Server, antares, ended, started, until},
};

/// Address of the greedy client.
pub(crate) const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Address of a client with one call.
pub(crate) const MODEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Time limit of the modest client's call on a busy machine.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// A connection of the client at `from`.
pub(crate) async fn connect(server: &Server, from: Ipv4Addr) -> Channel {
    let address: SocketAddr = server.address.parse().unwrap();
    let connector = service_fn(move |_| async move {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(address).await.map(TokioIo::new)
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect_with_connector(connector).await.unwrap()
}

/// The modest client gets a connection and an answer in time.
async fn modest_call(server: &Server) {
    let elf = guests::bytes("exit-imc").unwrap();
    let call = async {
        let client = Client::over(connect(server, MODEST).await, Token::default());
        client.execute(inline(&elf, &["7"], Tier::Interpreter)).await
    };
    let answer = timeout(ANSWER_TIME_MAX, call).await.expect("an answer in time").unwrap();
    assert_eq!(exit_code(&answer), Some(7));
}

/// A connection that sends only the preface.
async fn idle_connection(address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((GREEDY, 0).into()).unwrap();
    let stream = timeout(Duration::from_secs(2), socket.connect(address)).await.ok()?.ok()?;
    let mut stream = stream.into_std().unwrap();
    // The server may have closed it already.
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    Some(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_client_shut_nobody_out() {
    let (_data, server) = started("");
    modest_call(&server).await;
    let address = server.address.parse().unwrap();
    let mut idle = Vec::new();
    for _ in 0..1_100 {
        idle.extend(idle_connection(address).await);
    }
    modest_call(&server).await;
    assert!(server.is_live() && server.is_ready());
    drop(idle);
}

/// A request of `announced` bytes that stalls after `sent` bytes.
async fn half_sent(channel: &mut Channel, announced: u32, sent: usize) -> mpsc::Sender<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    let head = Bytes::from([&[0][..], &announced.to_be_bytes()].concat());
    // One field of bytes, longer than any request here.
    let field = Bytes::from_static(&[0x0a, 0x80, 0x80, 0x80, 0x09]);
    let chunk = Bytes::from(vec![b'x'; 64 << 10]);
    let chunks = std::iter::repeat_n(chunk, sent / (64 << 10));
    let parts = tokio_stream::iter([head, field].into_iter().chain(chunks));
    let body = StreamBody::new(
        parts
            .chain(ReceiverStream::new(receiver))
            .map(|data| Ok::<_, tonic::Status>(http_body::Frame::data(data))),
    );
    let request = http::Request::post("/antares.v1.RunnerService/VerifyTransaction")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(Body::new(body.boxed_unsync()))
        .unwrap();
    let call = channel.ready().await.unwrap().call(request);
    // Its answer, a refusal, does not matter.
    tokio::spawn(async move { drop(call.await) });
    sender
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_are_held_within_a_budget() {
    let (_data, server) = started("");
    modest_call(&server).await;
    let before = server.memory_high();
    let (mut open, mut channels) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut channel = connect(&server, GREEDY).await;
        for _ in 0..32 {
            open.push(half_sent(&mut channel, 20 << 20, 39 << 19).await);
        }
        channels.push(channel);
    }
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        modest_call(&server).await;
        sleep(Duration::from_millis(100)).await;
    }
    let grown = server.memory_high() - before;
    // One client's requests in transit, twice for growing buffers, and the windows of its connections.
    assert!(grown < 384 << 20, "{} MiB", grown >> 20);
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sessions_of_one_client_shut_nobody_out() {
    let (_data, server) = started("");
    modest_call(&server).await;
    let (mut sessions, mut refused) = (Vec::new(), 0);
    for _ in 0..5 {
        let mut client = Client::over(connect(&server, GREEDY).await, Token::default());
        for _ in 0..210 {
            let silent = tokio_stream::pending::<v1::ExecuteSessionRequest>();
            match client.runner.execute_session(silent).await {
                Ok(answers) => sessions.push((client.clone(), answers)),
                Err(status) => {
                    is(&status, Code::ResourceExhausted, "OVERLOADED");
                    refused += 1;
                }
            }
        }
    }
    modest_call(&server).await;
    assert!(refused > 0);
    drop(sessions);
    until("their places are free", || server.metric("antares_calls_in_progress") < 1.5);
}

/// Data to store as a script, which is not one.
pub(crate) fn junk(number: u8, bytes: usize) -> Vec<u8> {
    let mut junk = vec![number; bytes];
    junk[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0");
    junk
}

#[test]
fn a_server_that_may_open_too_few_files_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let limited = "ulimit -n 1024 && exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(antares(&[]).get_program()).arg(Server::store(&data));
    let (status, words) = ended(&mut command);
    assert_eq!(status, Some(3), "{words}");
    assert!(
        words.contains("may have 1024 files open") && words.contains("runner.ready_bytes_max"),
        "{words}"
    );
}
