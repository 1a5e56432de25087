//! Encrypted listeners with openssl's certificates: admitted and refused clients with their errors,
//! certificates that change under load, and handshakes that never end.

use std::{
    fs,
    io::Read as _,
    net::TcpStream,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use antares_tests::{
    authorities::{Authority, Pair},
    guests,
};
use antares_tls::{ClientFiles, TlsClient};
use tempfile::TempDir;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::server::{self, PATIENCE, Server, alone, ended, signal, started, until};

/// Renewals under load; signals announce most, and polling finds some.
const RENEWALS: usize = 100;
const RENEWALS_FOUND: usize = 3;

/// Names of the servers of these tests.
const SERVER: &str = "IP:127.0.0.1";

/// Permits everything to every certificate.
pub(crate) const ANYBODY: &str = "[[auth.rules]]\ncertificate = \"*\"\nany_tenant = true\n\
    roles = [\"upload\", \"compile\", \"execute\", \"profile\", \"admin\"]\n";

/// `[tls]` with a certificate and further settings.
pub(crate) fn section(pair: &Pair, more: &str) -> String {
    format!("[tls]\ncertificate = {:?}\nkey = {:?}\n{more}", pair.certificate, pair.key)
}

/// `antares` with these words about a server.
pub(crate) fn antares(server: &str, words: &[&str]) -> Command {
    let mut command = server::antares(words);
    command.args(["--server", server]);
    command
}

fn shown<'a>(ca: &'a Path, pair: Option<&'a Pair>) -> Vec<&'a str> {
    let mut words = vec!["health", "--tls-ca", ca.to_str().unwrap()];
    if let Some(Pair { certificate, key }) = pair {
        words.extend(["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    }
    words
}

/// All mismatches between client and server, and the errors that the client's user sees.
#[test]
fn who_shows_the_right_certificate_is_let_in_and_nobody_else() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (ca, data) = (ours.certificate(), tempfile::tempdir().unwrap());
    let (good, revoked) = (ours.issue("good", "DNS:client"), ours.issue("revoked", "DNS:client"));
    let expired = ours.issue_expired("expired", "DNS:client");
    let stranger = theirs.issue("stranger", "DNS:client");
    let list = ours.revoke(&[&revoked]);
    let more = format!("client_ca = {ca:?}\nclient_crl = {list:?}\n{ANYBODY}");
    let server = Server::start_with(&data, &section(&ours.issue("server", SERVER), &more));
    let (url, by_name) =
        (format!("https://{}", server.address), server.address.replace("127.0.0.1", "localhost"));

    let elf = guests::build("exit-imc").unwrap();
    let mut words = shown(&ca, Some(&good));
    words[0] = "run";
    words.extend([elf.to_str().unwrap(), "--"]);
    // Options of the server precede the script's arguments.
    let (status, said) = ended(&mut antares(&url, &words[..words.len() - 1]));
    assert_eq!(status, Some(0), "{said}");
    let mut by_environment = antares(&url, &["health"]);
    by_environment.env("ANTARES_TLS_CA", &ca).env("ANTARES_TLS_CERT", &good.certificate);
    let (status, said) = ended(by_environment.env("ANTARES_TLS_KEY", &good.key));
    assert_eq!(status, Some(0), "{said}");

    let their_ca = theirs.certificate();
    let by_name = format!("https://{by_name}");
    for (url, words, status, reported) in [
        (url.as_str(), shown(&ca, None), 3, "wants a client certificate"),
        (&url, shown(&ca, Some(&stranger)), 3, "of no authority that it trusts"),
        (&url, shown(&ca, Some(&expired)), 3, "refuses the client certificate: expired"),
        (&url, shown(&ca, Some(&revoked)), 3, "refuses the client certificate: revoked"),
        (&url, shown(&their_ca, Some(&good)), 3, "of no authority that is trusted here"),
        (&url, vec!["health"], 3, "of no authority that is trusted here"),
        (&by_name, shown(&ca, Some(&good)), 3, "for another name"),
        (&format!("http://{}", server.address), vec!["health"], 3, "https://"),
        (&url, shown(Path::new("/nowhere"), None), 2, "/nowhere"),
    ] {
        let (ended_with, said) = ended(&mut antares(url, &words));
        assert!(ended_with == Some(status) && said.contains(reported), "{words:?}, {reported}: {said}");
    }
    assert!(server.result("tls_handshakes_total", "failed") >= 4.0);
    assert_eq!(server.stop(), Some(0));
}

/// Before certificates expire.
#[test]
fn certificates_and_lists_tell_when_they_end() {
    let (ours, data) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let (ca, pair) = (ours.certificate(), ours.issue_until("server", SERVER, "20491231235959Z"));
    let more = format!("client_ca = {ca:?}\nclient_crl = {:?}\n{ANYBODY}", ours.revoke(&[]));
    let server = Server::start_with(&data, &section(&pair, &more));
    let end = |file: &str| {
        server.metric(&format!("antares_certificate_expiry_timestamp_seconds{{file=\"{file}\"}}"))
    };
    assert_eq!(end("server"), 2_524_607_999.0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let two_days = now + 1.9 * 86_400.0..now + 2.1 * 86_400.0;
    assert!(two_days.contains(&end("client_ca")), "{}", end("client_ca"));
    assert!(end("client_crl") > now);
    // Renewed: the key is written first, as a mismatched pair is not used.
    let newer = ours.issue_until("newer", SERVER, "20491231235958Z");
    fs::rename(&newer.key, &pair.key).unwrap();
    fs::rename(&newer.certificate, &pair.certificate).unwrap();
    until("the metric follows", || end("server") == 2_524_607_998.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_certificate_that_has_expired_takes_force_with_a_warning() {
    let (ours, data) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let pair = ours.issue_expired("old", SERVER);
    let (server, log) = Server::start_logged(&data, &section(&pair, ""));
    let said = fs::read_to_string(&log).unwrap();
    let warning = said.lines().find(|line| line.contains("takes force and has expired"));
    assert!(warning.is_some_and(|line| line.contains("WARN")), "{said}");
    let begins = server.metric("antares_certificate_begin_timestamp_seconds{file=\"server\"}");
    let ends = server.metric("antares_certificate_expiry_timestamp_seconds{file=\"server\"}");
    assert!(begins > 0.0 && begins < ends, "{begins} {ends}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_does_not_encrypt_says_so_to_who_thinks_it_does() {
    let (ours, (_data, server)) = (Authority::new("ours"), started(""));
    let url = format!("https://{}", server.address);
    let (status, said) = ended(&mut antares(&url, &shown(&ours.certificate(), None)));
    assert!(status == Some(3) && said.contains("does not speak TLS"), "{said}");
}

/// Runners and a compiler in separate processes: which of them trust each other.
#[test]
fn a_runner_believes_its_compiler_and_shows_who_it_is() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (ca, runner, stranger) =
        (ours.certificate(), ours.issue("runner", "DNS:runner"), theirs.issue("stranger", "DNS:runner"));
    let sections = section(&ours.issue("compiler", SERVER), &format!("client_ca = {ca:?}\n{ANYBODY}"));
    let (_data, compiler) = alone("antares-compiler-svc", &sections);
    let elf = guests::build("exit-imc").unwrap();
    let trusting = |ca: &Path, pair: &Pair| {
        let url = format!("https://{}", compiler.address);
        let (certificate, key) = (&pair.certificate, &pair.key);
        format!(
            "[runner]\ncompiler_url = {url:?}\ncompiler_ca = {ca:?}\ncompiler_certificate = {certificate:?}\ncompiler_key = {key:?}\n"
        )
    };
    for (sections, status) in [
        (trusting(&ca, &runner), 0),
        (trusting(&theirs.certificate(), &runner), 3),
        (trusting(&ca, &stranger), 3),
    ] {
        let (_data, runner) = alone("antares-runner-svc", &sections);
        let words = ["run", "--tier", "native", elf.to_str().unwrap()];
        assert!(runner.metric("antares_certificate_expiry_timestamp_seconds{file=\"client\"}") > 0.0);
        let (ended_with, said) = ended(&mut antares(&runner.address, &words));
        assert_eq!(ended_with, Some(status), "{sections}: {said}");
    }
}

/// openssl's report of a handshake with this protocol version.
fn handshake(address: &str, version: &str) -> String {
    let words = ["s_client", "-connect", address, version, "-cipher", "DEFAULT@SECLEVEL=0", "-alpn", "h2"];
    ended(Command::new("openssl").args(words).stdin(Stdio::null())).1
}

/// A folder whose certificate changes like a Kubernetes secret: the files are links through a linked folder.
struct Mounted {
    folder: TempDir,
    pair: Pair,
}

impl Mounted {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), path(name)).unwrap();
        }
        let pair = Pair { certificate: path("tls.crt"), key: path("tls.key") };
        Self { folder, pair }
    }

    fn put(&self, certificate: &Path, key: &Path, version: usize) {
        let version = self.folder.path().join(format!("..{version}"));
        fs::create_dir(&version).unwrap();
        fs::copy(certificate, version.join("tls.crt")).unwrap();
        fs::copy(key, version.join("tls.key")).unwrap();
        let (new, link) = (self.folder.path().join("..data_tmp"), self.folder.path().join("..data"));
        symlink(&version, &new).unwrap();
        fs::rename(new, link).unwrap();
    }
}

/// Calls until stopped, each on a new connection or all on one; returns the number of calls.
async fn call(
    server: String,
    ca: std::path::PathBuf,
    is_new: bool,
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
) {
    let client = TlsClient::load(&ClientFiles { ca: Some(ca), ..ClientFiles::default() }).unwrap();
    let mut channel = client.connect(&server, |endpoint| endpoint).await.unwrap();
    while !stop.load(Ordering::Relaxed) {
        if is_new {
            channel = client.connect(&server, |endpoint| endpoint).await.unwrap();
        }
        let request = HealthCheckRequest { service: "antares.v1.RunnerService".to_owned() };
        HealthClient::new(channel.clone()).check(request).await.unwrap();
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_under_load_and_no_call_notices() {
    let (ours, data, mounted) = (Authority::new("ours"), tempfile::tempdir().unwrap(), Mounted::new());
    let pairs: Vec<Pair> = (0..10).map(|number| ours.issue(&format!("server{number}"), SERVER)).collect();
    mounted.put(&pairs[0].certificate, &pairs[0].key, 0);
    let server = Server::start_with(&data, &section(&mounted.pair, ""));
    let reloads = |result| server.reloads("tls", result);
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let url = format!("https://{}", server.address);
    let callers: Vec<_> = [true, true, false]
        .map(|is_new| {
            tokio::spawn(call(url.clone(), ours.certificate(), is_new, stop.clone(), calls.clone()))
        })
        .into();
    for renewal in 1..=RENEWALS {
        let (before, pair) = (reloads("reloaded"), &pairs[renewal % pairs.len()]);
        mounted.put(&pair.certificate, &pair.key, renewal);
        if renewal > RENEWALS_FOUND {
            signal("-HUP", server.pid());
        }
        until("the certificate is renewed", || reloads("reloaded") > before);
    }
    // A mismatched key changes nothing.
    mounted.put(&pairs[1].certificate, &pairs[2].key, RENEWALS + 1);
    until("the broken pair is refused", || reloads("failed") > 0.0);
    let made = calls.load(Ordering::Relaxed);
    until("calls go on", || calls.load(Ordering::Relaxed) > made + 100);
    let shown = handshake(&server.address, "-tls1_3");
    assert!(shown.contains("CN = server0"), "{shown}");
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_handshake_that_does_not_go_on_is_ended_and_takes_no_place_of_others() {
    let (ours, data) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let more = "[tuned]\nhandshake_ms_max = 1500\nhandshakes_max = 4\n";
    let server = Server::start_with(&data, &section(&ours.issue("server", SERVER), more));
    let result = |result| server.result("tls_handshakes_total", result);
    let started = Instant::now();
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    // Two are a peer's share of four.
    until("two are refused", || result("busy") >= 2.0);
    until("two are ended", || result("timeout") >= 2.0);
    assert!(started.elapsed() >= Duration::from_millis(1_400));
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    let url = format!("https://{}", server.address);
    let (status, said) = ended(&mut antares(&url, &shown(&ours.certificate(), None)));
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn files_that_are_of_no_use_stop_the_start() {
    let (ours, data) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let (one, two) = (ours.issue("one", SERVER), ours.issue("two", SERVER));
    let config = data.path().join("antares.toml");
    for (pair, reported) in [
        (Pair { key: two.key.clone(), ..one.clone() }, "cannot be used together"),
        (Pair { key: one.certificate.clone(), ..one.clone() }, "no private key"),
        (Pair { certificate: "/nowhere".into(), ..one.clone() }, "/nowhere"),
    ] {
        fs::write(&config, format!("[metrics]\naddress = \"\"\n{}", section(&pair, ""))).unwrap();
        let mut serve = server::antares(&["serve", "--listen", "127.0.0.1:0", "--config"]);
        let (status, said) = ended(serve.arg(&config).arg("--data").arg(Server::store(&data)));
        assert!(status == Some(3) && said.contains(reported), "{reported}: {said}");
    }
}
