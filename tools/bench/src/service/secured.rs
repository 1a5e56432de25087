//! Cost of encryption, tokens and signatures: alternating calls to a plain server and to one with TLS and
//! tokens; and signing and verifying a manifest.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use antares_abi::{CodeTier, Sha256Digest};
use antares_proto::v1::{self, runner_service_client::RunnerServiceClient, script::Source};
use antares_tests::authorities::{Authority, token_key};
use antares_tls::{ClientFiles, TlsClient};
use antares_trust::{Facts, Keyring};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use jsonwebtoken::{
    Algorithm, EncodingKey, Header, encode,
    jwk::{Jwk, JwkSet},
};
use serde_json::json;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use super::{
    Results,
    grpc::{BATCH, WARM_UP, batch, check, unary},
    scripts::Script,
    server::Server,
};
use crate::programs::OPTIONS;

/// Manifests signed and verified per round.
const SIGNATURES: usize = 1_000;

/// Adds a token to every call.
#[derive(Clone)]
struct Token(MetadataValue<Ascii>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// Issuers of credentials for a server with authentication: a certificate authority and a token issuer.
struct Issuers {
    authority: Authority,
    folder: PathBuf,
    key: Vec<u8>,
}

impl Issuers {
    fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let issuers =
            Self { authority: Authority::new("bench"), folder: folder.to_owned(), key: token_key() };
        let mut public = Jwk::from_encoding_key(&EncodingKey::from_ec_der(&issuers.key), Algorithm::ES256)?;
        public.common.key_id = Some("bench".to_owned());
        fs::write(issuers.keys(), serde_json::to_vec(&JwkSet { keys: vec![public] })?)?;
        Ok(issuers)
    }

    fn keys(&self) -> PathBuf {
        self.folder.join("jwks.json")
    }

    /// Configuration of a server that requires a client certificate and a token.
    fn sections(&self) -> String {
        let pair = self.authority.issue("server", "IP:127.0.0.1");
        let (certificate, key, ca) = (pair.certificate, pair.key, self.authority.certificate());
        format!(
            "[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nclient_ca = {ca:?}\n\
             [auth]\njwks = {:?}\nissuer = \"https://bench\"\naudience = \"bench\"\n\
             [[auth.rules]]\ntoken = \"bench\"\ntenant = \"bench\"\nroles = [\"upload\", \"compile\", \"execute\"]\n",
            self.keys()
        )
    }

    fn token(&self) -> Result<Token> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = json!({ "sub": "bench", "iss": "https://bench", "aud": "bench", "exp": now + 3_600 });
        let header = Header { kid: Some("bench".to_owned()), ..Header::new(Algorithm::ES256) };
        let token = encode(&header, &claims, &EncodingKey::from_ec_der(&self.key))?;
        Ok(Token(format!("Bearer {token}").parse()?))
    }

    async fn connect(&self, server: &Server) -> Result<Channel> {
        let pair = self.authority.issue("client", "DNS:bench");
        let files = ClientFiles {
            ca: Some(self.authority.certificate()),
            certificate: Some(pair.certificate),
            key: Some(pair.key),
        };
        let client = TlsClient::load(&files)?;
        let connected = client.connect(&format!("https://{}", server.address), |endpoint| endpoint).await;
        connected.map_err(|error| anyhow::anyhow!("no connection: {error}"))
    }
}

pub(super) fn measure(time: Duration, rounds: usize, results: &mut Results) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("antares-bench-secured-{}", std::process::id()));
    let measured =
        signatures(&folder.join("keys"), rounds, results).and_then(|()| calls(&folder, time, results));
    let _ = fs::remove_dir_all(folder);
    measured
}

/// Alternates a unary call and a batch between the two servers.
fn calls(folder: &Path, time: Duration, results: &mut Results) -> Result<()> {
    let issuers = Issuers::new(folder)?;
    let (plain, secured) = (Server::start("plain", "")?, Server::start("secured", &issuers.sections())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{}", plain.address))?.connect().await?;
        let nobody = |request| Ok(request);
        let plain = RunnerServiceClient::new(InterceptedService::new(channel, nobody));
        let channel = InterceptedService::new(issuers.connect(&secured).await?, issuers.token()?);
        by_turns(plain, RunnerServiceClient::new(channel), time, results).await
    })
}

async fn by_turns<P: Interceptor + Clone, S: Interceptor + Clone>(
    mut plain: RunnerServiceClient<InterceptedService<Channel, P>>,
    mut secured: RunnerServiceClient<InterceptedService<Channel, S>>,
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let elf = Bytes::from(Script::trivial()?.elf);
    // Upload the script to each server once; later calls name it.
    let answer = plain.execute(unary(Source::Elf(elf.clone()))).await?.into_inner();
    secured.execute(unary(Source::Elf(elf))).await?;
    let call = unary(Source::Sha256(answer.script_sha256));
    let many = batch(&call);
    let mut times: [Vec<Duration>; 4] = Default::default();
    let began = Instant::now();
    let until = began + WARM_UP + 6 * time;
    for round in 0_u32.. {
        if Instant::now() >= until {
            break;
        }
        let mut taken = [Duration::ZERO; 4];
        // Alternate the order in each round.
        for place in 0..2 {
            let started = Instant::now();
            if (place + round) % 2 == 0 {
                check(&plain.execute(call.clone()).await?.into_inner())?;
                taken[0] = started.elapsed();
                let started = Instant::now();
                all_ran(&plain.execute_batch(many.clone()).await?.into_inner())?;
                taken[2] = started.elapsed();
            } else {
                check(&secured.execute(call.clone()).await?.into_inner())?;
                taken[1] = started.elapsed();
                let started = Instant::now();
                all_ran(&secured.execute_batch(many.clone()).await?.into_inner())?;
                taken[3] = started.elapsed();
            }
        }
        if began.elapsed() > WARM_UP {
            times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken));
        }
    }
    let [plain, secured, plain_batch, secured_batch] = times;
    results.latency("grpc_plain", plain);
    results.latency("grpc_tls_token", secured);
    results.latency("grpc_plain_batch", plain_batch);
    results.latency("grpc_tls_token_batch", secured_batch);
    Ok(())
}

fn all_ran(answer: &v1::ExecuteBatchResponse) -> Result<()> {
    ensure!(answer.results.len() == BATCH, "{} results", answer.results.len());
    Ok(())
}

/// Times the signing and the verification of a manifest.
fn signatures(folder: &Path, rounds: usize, results: &mut Results) -> Result<()> {
    let keyring = Keyring::open_or_make(folder)?;
    let script = Sha256Digest::of(b"script");
    let key = Sha256Digest::for_artifact(script, OPTIONS, CodeTier::Full);
    let (mut signing, mut checking) = (Vec::new(), Vec::new());
    for number in 0..SIGNATURES * rounds {
        let facts = Facts { key, script, digest: Sha256Digest::of(&number.to_le_bytes()), length: 100_000 };
        let started = Instant::now();
        let signed = keyring.sign(&facts, u64::MAX).context("a keyring without a key")?;
        signing.push(started.elapsed());
        let started = Instant::now();
        keyring.verify(&signed, &facts)?;
        checking.push(started.elapsed());
    }
    results.latency("manifest_signed", signing);
    results.latency("manifest_checked", checking);
    Ok(())
}
