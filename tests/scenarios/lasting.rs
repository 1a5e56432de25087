//! The client crate with servers that die, and with servers that authenticate.

use std::{collections::HashMap, fs, time::Duration};

use antares_client::{Builder, Client, Script, TlsFiles, v1};
use antares_tests::{authorities::Authority, guests};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    batches::input,
    identity::{Issuer, claims},
    server::{PATIENCE, Server},
    tls::section,
};

/// Inputs of the session.
const INPUTS: u64 = 1200;
/// Answers between two deaths.
const ANSWERS_APART: u64 = 250;

/// Each server dies during the session, and restarts.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_its_servers_and_answers_each_input_once() {
    let folders: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let mut servers: Vec<Server> = folders.iter().map(Server::start).collect();
    let elf = Bytes::from(guests::bytes("fib-imc").unwrap());
    let urls = servers.iter().map(|server| format!("http://{}", server.address));
    let client = Client::builder().servers(urls).build().unwrap();
    let mut expected = HashMap::new();
    for number in 0..20 {
        let fib = v1::ExecuteRequest { text_args: vec![number.to_string()], ..Default::default() };
        let answer = client.execute(Script::Elf(elf.clone()), fib).await.unwrap();
        expected.insert(number, answer.verdict.unwrap());
    }
    let (sender, inputs) = mpsc::channel(1);
    tokio::spawn(async move {
        for id in 0..INPUTS {
            sender.send((id, input(&(id % 20).to_string()))).await.unwrap();
        }
    });
    let start = v1::SessionStart::default();
    let mut session = client.session(Script::Elf(elf), start, ReceiverStream::new(inputs));
    let mut deaths = 0;
    for id in 0..INPUTS {
        let answer = tokio::time::timeout(PATIENCE, session.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(answer.id, id);
        assert_eq!(answer.result.verdict.as_ref(), expected.get(&(id % 20)), "{id}");
        if id % ANSWERS_APART == ANSWERS_APART - 1 {
            // Both, one after the other, so that the session's own server is among them.
            servers.iter_mut().zip(&folders).for_each(|(server, folder)| server.die_and_return(folder));
            deaths += 1;
        }
    }
    assert!(session.next().await.is_none());
    assert_eq!(deaths, INPUTS / ANSWERS_APART);
}

/// With certificates on both sides and a token that is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_who_it_is() {
    let (ours, issuer, data) = (Authority::new("ours"), Issuer::new(), tempfile::tempdir().unwrap());
    let pair = ours.issue("server", "IP:127.0.0.1");
    let shown = ours.issue("client", "DNS:client");
    let tls = section(&pair, &format!("client_ca = {:?}\n", ours.certificate()));
    let server = Server::start_with(&data, &format!("{tls}{}", issuer.section()));
    let token = data.path().join("token");
    fs::write(&token, issuer.sign(&claims("user/wallet", |_| {}))).unwrap();
    let files = TlsFiles { ca: Some(ours.certificate()), ..TlsFiles::default() };
    let builder = || -> Builder {
        Client::builder().servers([format!("https://{}", server.address)]).deadline(Duration::from_secs(30))
    };
    let stranger = builder().tls(files.clone()).build().unwrap().with_deadline(Duration::from_secs(3));
    stranger.capabilities().await.unwrap_err();
    let files = TlsFiles { certificate: Some(shown.certificate), key: Some(shown.key), ..files };
    let client = builder().tls(files).token_file(&token).build().unwrap();
    let quotas = client.capabilities().await.unwrap().quotas.unwrap();
    assert_eq!(quotas.tenant, "wallet");
    // It may not upload, so the script is sent inline.
    let elf = Script::Elf(Bytes::from(guests::bytes("exit-imc").unwrap()));
    let answer = client.execute(elf, v1::ExecuteRequest::default()).await.unwrap();
    assert_eq!(answer.verdict.unwrap().outcome(), v1::Outcome::Exit);
}
