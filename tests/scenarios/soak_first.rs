//! A service as the first process of a container, for a long time, among all that may be out of order around
//! it: zygotes are renewed, nobody reads its log, its object store takes connections and never answers, keys
//! of tokens and of native code rotate. Well-behaved callers see none of it, and nothing grows.

use std::{
    net::TcpListener,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use antares_pool::worker_path;
use antares_proto::v1::Tier;
use antares_tests::guests;
use tonic::Request;

use crate::{
    client::{Client, exit_code, inline},
    identity::{Issuer, claims, sign},
    neighbours::S3,
    server::{Server, children, possessions, signal, until},
    soak::{SECONDS, flat},
    surroundings::{First, is_root, zombies},
};

/// Between two looks at the server.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keys of tokens: one signs, and the other one is about to.
const KEYS: [&str; 2] = ["first", "second"];

/// What callers share: which key signs their tokens now, and what they met.
struct Shared {
    over: AtomicBool,
    /// Id and private half.
    signer: Mutex<(&'static str, Vec<u8>)>,
    done: AtomicU64,
    wrong: AtomicU64,
}

impl Shared {
    fn token(&self, who: &str) -> String {
        let (id, der) = &*self.signer.lock().unwrap();
        format!("Bearer {}", sign(id, der, &claims(&format!("user/{who}"), |_| {})))
    }
}

/// Calls of one caller, each with a token of the key that signs now. With `is_new` each script is one that
/// nobody has seen.
async fn call(
    address: String,
    shared: Arc<Shared>,
    (who, tier, is_new): (&str, Tier, bool),
    pause: Duration,
) {
    let mut elf = guests::bytes("exit-imc").unwrap();
    let mut client = Client::connect_to(&address).await.unwrap();
    let mut round = 0_u32;
    while !shared.over.load(Ordering::Relaxed) {
        round += 1;
        if is_new {
            elf.extend(round.to_le_bytes());
        }
        let code = round % 100;
        let mut request = Request::new(inline(&elf, &[&code.to_string()], tier));
        request.metadata_mut().insert("authorization", shared.token(who).parse().unwrap());
        let answer = client.runner.execute(request).await;
        let is_right =
            matches!(&answer, Ok(answer) if exit_code(answer.get_ref()) == i32::try_from(code).ok());
        if !is_right {
            println!("wrong, {who}, call {round}: {answer:?}");
        }
        let count = if is_right { &shared.done } else { &shared.wrong };
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
    }
}

/// A new key of tokens signs, the old one is taken back; so with keys that sign native code.
fn rotate(server: &Server, issuer: &mut Issuer, shared: &Shared, keys: &Path) {
    let old = shared.signer.lock().unwrap().0;
    let new = if old == KEYS[0] { KEYS[1] } else { KEYS[0] };
    let reloads = || server.metric("antares_reloads_total{kind=\"jwks\",result=\"reloaded\"}");
    let before = reloads();
    issuer.renew(new);
    until("the new key is known", || reloads() > before);
    *shared.signer.lock().unwrap() = (new, issuer.keys[new].clone());
    // A call with a token of the old one may be on its way.
    std::thread::sleep(Duration::from_secs(1));
    let before = reloads();
    issuer.take_back(old);
    until("the old key is gone", || reloads() > before);
    let mut command = Command::new(worker_path("antares").unwrap());
    let output = command.args(["keys", "rotate", "--keys"]).arg(keys).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn sections(keys: &Path, minute: Duration, issuer: &Issuer) -> String {
    format!(
        "filter = \"debug\"\n[tuned]\nzygote_age_ms_max = {}\nleeway_ms = 1000\n[signing]\nkeys = {keys:?}\n\
         [shared]\nurl = \"s3://antares/soak\"\n{}",
        minute.as_millis(),
        issuer.section()
    )
}

fn store_failed(server: &Server) -> bool {
    let failed = |line: &&str| line.starts_with("antares_tier_failures_total") && !line.ends_with(" 0");
    server.get("/metrics").lines().any(|line| failed(&line))
}

async fn soak(seconds: u64, minute: Duration) {
    if !is_root() {
        return;
    }
    let (data, mut issuer) = (tempfile::tempdir().unwrap(), Issuer::new());
    // Takes connections, as long as its queue has places, and never answers.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let environment = S3::environment_at(&dead.local_addr().unwrap().to_string());
    std::fs::write(data.path().join("environment"), environment).unwrap();
    let keys = data.path().join("keys");
    let sections = sections(&keys, minute, &issuer);
    let before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    // Nobody reads the log any more.
    let (mut server, log) = Server::start_unread(&before, &data, &sections);
    let first = First::of(&server);
    until("it serves", || server.is_ready());
    let shared = Arc::new(Shared {
        over: AtomicBool::new(false),
        signer: Mutex::new((KEYS[0], issuer.keys[KEYS[0]].clone())),
        done: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    });
    let rare = u64::try_from(minute.as_millis() / 6).unwrap();
    let callers = [
        (("a", Tier::Auto, false), 20),
        (("b", Tier::Native, false), 50),
        (("c", Tier::Interpreter, false), 50),
        (("d", Tier::Auto, true), rare),
    ]
    .map(|(what, pause_ms)| {
        let pause = Duration::from_millis(pause_ms);
        tokio::spawn(call(server.address.clone(), shared.clone(), what, pause))
    });
    let (begin, mut rotations, mut looks) = (Instant::now(), 0, Vec::new());
    while begin.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(LOOK_EVERY).await;
        let [open, files, threads, memory] = possessions(first.0);
        looks.push([open, files, threads, memory, children(first.0).len() as u64]);
        if begin.elapsed() > minute * (rotations + 1) {
            tokio::task::block_in_place(|| rotate(&server, &mut issuer, &shared, &keys));
            rotations += 1;
            let (done, look) = (shared.done.load(Ordering::Relaxed), looks.last().unwrap());
            println!("{} s: {look:?}, {done} calls", begin.elapsed().as_secs());
        }
    }
    shared.over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let [done, wrong] = [&shared.done, &shared.wrong].map(|count| count.load(Ordering::Relaxed));
    let of_run = |name: &str| server.metric(&format!("antares_zygote_{name}_total{{role=\"run\"}}"));
    let (renewals, restarts) = (of_run("renewals"), of_run("restarts"));
    let lost = server.metric("antares_log_lost_total");
    println!(
        "{seconds} s: {done} calls, {wrong} wrong, {rotations} rotations, {renewals} renewals, {lost} lost"
    );
    assert_eq!(wrong, 0);
    assert!(done > seconds && rotations > 1 && renewals >= 1.0, "{done} {rotations} {renewals}");
    // All that was out of order was so.
    assert!(lost > 0.0, "the log was read");
    assert!(store_failed(&server), "the store answered");
    assert!(restarts < 0.5, "{restarts} zygotes died");
    flat(&looks);
    until("nobody is left unreaped", || zombies(first.0) == 0);
    assert!(server.is_live() && server.is_ready());
    signal("-TERM", first.0);
    assert_eq!(server.wait(), Some(0));
    // It is gone, and its number may be somebody else's.
    std::mem::forget(first);
    drop((log, dead));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_minute_as_the_first_process_leaves_it_as_it_was() {
    soak(40, Duration::from_secs(8)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half an hour, or as long as ANTARES_SOAK_SECONDS says"]
async fn half_an_hour_as_the_first_process_leaves_it_as_it_was() {
    let seconds = std::env::var(SECONDS).map_or(1_800, |text| text.parse().expect("a number of seconds"));
    soak(seconds, Duration::from_secs(60)).await;
}
