//! Permissions of calls: every call of the descriptor set for every role, and the status and reason of every
//! refusal.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use antares_proto::{FILE_DESCRIPTOR_SET, v1};
use antares_tests::authorities::{Authority, Pair, token_key};
use antares_tls::{ClientFiles, TlsClient};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    client::reason,
    server::{PATIENCE, Server},
    tls::section,
};

const ISSUER: &str = "https://issuer.test";
const AUDIENCE: &str = "antares";

/// Every call, and the role that may make it. A new call needs a row here and in `roles.rs`.
const CALLS: [(&str, Option<&str>); 33] = [
    ("antares.v1.CompilerService/Upload", Some("upload")),
    ("antares.v1.CompilerService/QueryUpload", Some("upload")),
    ("antares.v1.CompilerService/FindMissing", Some("upload")),
    ("antares.v1.CompilerService/Compile", Some("compile")),
    ("antares.v1.CompilerService/GetArtifact", Some("compile")),
    ("antares.v1.CompilerService/GetScript", Some("compile")),
    ("antares.v1.CompilerService/Learn", Some("compile")),
    ("antares.v1.CompilerService/GetCapabilities", None),
    ("antares.v1.CompilerService/ExplainArtifact", Some("compile")),
    ("antares.v1.OperationService/StartCompile", Some("compile")),
    ("antares.v1.OperationService/GetOperation", Some("compile")),
    ("antares.v1.OperationService/WaitOperation", Some("compile")),
    ("antares.v1.OperationService/CancelOperation", Some("compile")),
    ("antares.v1.OperationService/ListOperations", Some("compile")),
    ("antares.v1.AdminService/Drain", Some("admin")),
    ("antares.v1.AdminService/Revoke", Some("admin")),
    ("antares.v1.AdminService/SetLogFilter", Some("admin")),
    ("antares.v1.StoreService/ListStored", Some("admin")),
    ("antares.v1.StoreService/RemoveStored", Some("admin")),
    ("antares.v1.StoreService/PinStored", Some("admin")),
    ("antares.v1.RunnerService/Execute", Some("execute")),
    ("antares.v1.RunnerService/ExecuteBatch", Some("execute")),
    ("antares.v1.RunnerService/ExecuteSession", Some("execute")),
    ("antares.v1.RunnerService/VerifyTransaction", Some("execute")),
    ("antares.v1.RunnerService/VerifyBatch", Some("execute")),
    ("antares.v1.RunnerService/VerifySession", Some("execute")),
    ("antares.v1.RunnerService/GetCapabilities", None),
    ("antares.v1.ProfileService/ListProfiles", Some("profile")),
    ("antares.v1.ProfileService/GetProfile", Some("profile")),
    ("antares.v1.ProfileService/TopFunctions", Some("profile")),
    ("antares.v1.ProfileService/GetCallGraph", Some("profile")),
    ("antares.v1.ProfileService/DiffProfiles", Some("profile")),
    ("antares.v1.ProfileService/GetInsights", Some("profile")),
];

const ROLES: [&str; 5] = ["upload", "compile", "execute", "profile", "admin"];

/// Keys of an issuer and the file with their public halves.
pub(crate) struct Issuer {
    folder: TempDir,
    pub(crate) keys: BTreeMap<&'static str, Vec<u8>>,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        let issuer = Self { folder: tempfile::tempdir().unwrap(), keys: BTreeMap::new() };
        issuer.with("first")
    }

    fn with(mut self, id: &'static str) -> Self {
        self.keys.insert(id, token_key());
        self.write();
        self
    }

    fn write(&self) {
        let keys: Vec<Value> = self.keys.iter().map(|(id, der)| public(id, der)).collect();
        let new = self.folder.path().join("new");
        fs::write(&new, json!({ "keys": keys }).to_string()).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("jwks.json")
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        sign("first", &self.keys["first"], claims)
    }

    /// `[auth]`, with a tenant for each role.
    pub(crate) fn section(&self) -> String {
        let mut text =
            format!("[auth]\njwks = {:?}\nissuer = {ISSUER:?}\naudiences = [{AUDIENCE:?}]\n", self.file());
        for role in ROLES {
            text += &format!(
                "[[auth.rules]]\ntoken = \"role/{role}\"\ntenant = \"t-{role}\"\nroles = [{role:?}]\n"
            );
        }
        text + "[[auth.rules]]\ntoken = \"user/*\"\ntenant = \"*\"\nroles = [\"execute\", \"profile\"]\n\
             [[auth.rules]]\ntoken = \"gateway\"\nroles = [\"execute\", \"profile\"]\nany_tenant = true\n"
    }
}

/// The public half as a JWK: the point is at the end of openssl's keys.
pub(crate) fn public(id: &str, der: &[u8]) -> Value {
    let (x, y) = der[der.len() - 64..].split_at(32);
    json!({ "kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "x": BASE64_URL_SAFE_NO_PAD.encode(x), "y": BASE64_URL_SAFE_NO_PAD.encode(y) })
}

pub(crate) fn sign(id: &str, der: &[u8], claims: &Value) -> String {
    let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::ES256) };
    encode(&header, claims, &EncodingKey::from_ec_der(der)).unwrap()
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims of a valid token, changed.
pub(crate) fn claims(subject: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = json!({ "sub": subject, "iss": ISSUER, "aud": AUDIENCE, "exp": now() + 600 });
    change(&mut claims);
    claims
}

/// Calls `method` with an empty message. Only permitted callers learn what is wrong with it.
pub(crate) async fn call(
    channel: &Channel,
    method: &str,
    authorization: &[String],
    tenant: Option<&str>,
) -> Status {
    let mut request = Request::new(v1::FindMissingRequest::default());
    for value in authorization {
        let value: MetadataValue<Ascii> = value.parse().unwrap();
        request.metadata_mut().append("authorization", value);
    }
    if let Some(tenant) = tenant {
        request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
    }
    let path: PathAndQuery = format!("/{method}").parse().unwrap();
    let codec = tonic_prost::ProstCodec::<v1::FindMissingRequest, v1::FindMissingResponse>::default();
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    // The first message decides: some streams do not end.
    let begun = match client.server_streaming(request, path, codec).await {
        Ok(answer) => answer.into_inner().message().await,
        Err(status) => Err(status),
    };
    begun.map_or_else(|status| status, |_| Status::ok(""))
}

pub(crate) fn is_refused(status: &Status) -> bool {
    matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied)
}

pub(crate) async fn plain(server: &Server) -> Channel {
    Endpoint::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap()
}

pub(crate) fn bearer(token: &str) -> Vec<String> {
    vec![format!("Bearer {token}")]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_open_to_its_role_and_to_no_other() {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().flat_map(|file| file.service.iter().map(move |service| (file, service)));
    let methods: Vec<String> = services
        .flat_map(|(file, service)| {
            service
                .method
                .iter()
                .map(move |method| format!("{}.{}/{}", file.package(), service.name(), method.name()))
        })
        .collect();
    for method in &methods {
        assert!(CALLS.iter().any(|(row, _)| row == method), "{method} has no row: who may call it?");
    }
    assert_eq!(methods.len(), CALLS.len());

    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    for (method, role) in CALLS {
        for caller in ROLES {
            // It would end the server.
            if method.ends_with("/Drain") && caller == "admin" {
                continue;
            }
            let token = issuer.sign(&claims(&format!("role/{caller}"), |_| {}));
            let status = call(&channel, method, &bearer(&token), None).await;
            let may = role.is_none_or(|role| role == caller);
            assert_eq!(is_refused(&status), !may, "{caller} calls {method}: {status:?}");
            if !may {
                assert_eq!(
                    (status.code(), reason(&status).as_str()),
                    (Code::PermissionDenied, "ROLE_MISSING")
                );
            }
        }
        let status = call(&channel, method, &[], None).await;
        assert_eq!((status.code(), reason(&status).as_str()), (Code::Unauthenticated, "CREDENTIALS_MISSING"));
    }
    // Probes have no credentials, and get only the status.
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "{health:?}");
    for (method, expected) in [
        ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Code::Unauthenticated),
        ("antares.v1.RunnerService/Other", Code::Unauthenticated),
    ] {
        assert_eq!(call(&channel, method, &[], None).await.code(), expected, "{method}");
    }
}

/// Waits for a status.
async fn becomes(channel: &Channel, token: &str, is_refused_then: bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = call(channel, "antares.v1.RunnerService/Execute", &bearer(token), None).await;
        if is_refused(&status) == is_refused_then {
            return;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_tokens_are_renewed() {
    let (mut issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    let old = issuer.sign(&claims("user/x", |_| {}));
    becomes(&channel, &old, false).await;
    issuer = issuer.with("second");
    let new = sign("second", &issuer.keys["second"], &claims("user/x", |_| {}));
    becomes(&channel, &new, false).await;
    becomes(&channel, &old, false).await;
    issuer.keys.remove("first");
    issuer.write();
    // Also for a token that was accepted before.
    becomes(&channel, &old, true).await;
    fs::write(issuer.file(), "{}").unwrap();
    crate::server::until("the broken file is refused", || {
        server.metric("antares_reloads_total{kind=\"jwks\",result=\"failed\"}") > 0.0
    });
    becomes(&channel, &new, false).await;
}

/// Runs in the profiles that the caller with `token` sees in the name of `tenant`.
async fn runs_of(channel: &Channel, token: &str, tenant: Option<&str>) -> u64 {
    let mut request = Request::new(v1::ListProfilesRequest::default());
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    if let Some(tenant) = tenant {
        request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
    }
    let mut client = v1::profile_service_client::ProfileServiceClient::new(channel.clone());
    client.list_profiles(request).await.unwrap().into_inner().scripts.iter().map(|script| script.runs).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_who_was_proven_and_not_who_is_said() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    let token = |subject| issuer.sign(&claims(subject, |_| {}));
    let elf = antares_tests::guests::bytes("exit-imc").unwrap();
    let mut request = Request::new(crate::client::inline(&elf, &[], v1::Tier::Interpreter));
    request.metadata_mut().insert("authorization", format!("Bearer {}", token("user/one")).parse().unwrap());
    request.metadata_mut().insert("antares-tenant", "two".parse().unwrap());
    let mut runner = v1::runner_service_client::RunnerServiceClient::new(channel.clone());
    runner.execute(request).await.unwrap();
    // The run is `one`'s, whatever it claimed; only callers that may act for others see another name.
    assert_eq!(runs_of(&channel, &token("user/one"), None).await, 1);
    assert_eq!(runs_of(&channel, &token("user/two"), None).await, 0);
    assert_eq!(runs_of(&channel, &token("user/two"), Some("one")).await, 0);
    assert_eq!(runs_of(&channel, &token("gateway"), Some("one")).await, 1);
    assert_eq!(runs_of(&channel, &token("gateway"), Some("two")).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_certificates_make_tenants_and_roles() {
    let (ours, data) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let (pair, ca) = (ours.issue("server", "IP:127.0.0.1"), ours.certificate());
    let tls = section(&pair, &format!("client_ca = {ca:?}\n"));
    let rules = "[[auth.rules]]\ncertificate = \"spiffe://test/ns/*/sa/node\"\ntenant = \"*\"\nroles = [\"execute\"]\n\
        [[auth.rules]]\ncertificate = \"ops.test\"\nroles = [\"profile\", \"admin\"]\n";
    let server = Server::start_with(&data, &format!("{tls}{rules}"));
    for (name, names, method, expected) in [
        ("node", "URI:spiffe://test/ns/a/sa/node", "RunnerService/Execute", Code::InvalidArgument),
        ("node2", "URI:spiffe://test/ns/a/sa/node", "ProfileService/ListProfiles", Code::PermissionDenied),
        ("two", "DNS:x,URI:spiffe://test/ns/b/sa/node", "RunnerService/Execute", Code::InvalidArgument),
        ("ops", "DNS:ops.test", "ProfileService/ListProfiles", Code::Ok),
        ("ops2", "DNS:ops.test", "RunnerService/Execute", Code::PermissionDenied),
        ("else", "URI:spiffe://else/ns/a/sa/node", "RunnerService/Execute", Code::PermissionDenied),
        ("path", "URI:spiffe://test/ns/a/sa/node/more", "RunnerService/Execute", Code::PermissionDenied),
        ("dns", "DNS:ops.test.evil", "ProfileService/ListProfiles", Code::PermissionDenied),
        ("mail", "email:ops@test", "ProfileService/ListProfiles", Code::PermissionDenied),
    ] {
        let channel = shown(&server, &ca, &ours.issue(name, names)).await;
        let status = call(&channel, &format!("antares.v1.{method}"), &[], Some("other")).await;
        assert_eq!(status.code(), expected, "{name}: {status:?}");
    }
}

pub(crate) async fn shown(server: &Server, ca: &Path, pair: &Pair) -> Channel {
    let files = ClientFiles {
        ca: Some(ca.to_owned()),
        certificate: Some(pair.certificate.clone()),
        key: Some(pair.key.clone()),
    };
    let client = TlsClient::load(&files).unwrap();
    client.connect(&format!("https://{}", server.address), |endpoint| endpoint).await.unwrap()
}
