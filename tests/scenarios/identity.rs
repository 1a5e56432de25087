//! Permissions of calls: every call of the descriptor set for every role, and the status and reason of every
//! refusal.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
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
    client::{Client, inline, is, of_tenant, reason},
    server::{Server, eventually, until},
    tls::section,
};

const ISSUER: &str = "https://issuer.test";
const AUDIENCE: &str = "antares";

pub(crate) const EXECUTE: &str = "antares.v1.RunnerService/Execute";

/// Every call by service and the role that may make it. A new call needs a place here and in `roles.rs`.
const CALLS: [(&str, Option<&str>, &str); 9] = [
    ("Compiler", Some("upload"), "Upload QueryUpload FindMissing"),
    ("Compiler", Some("compile"), "Compile GetArtifact GetScript Learn ExplainArtifact"),
    ("Compiler", None, "GetCapabilities"),
    ("Operation", Some("compile"), "StartCompile GetOperation WaitOperation CancelOperation ListOperations"),
    ("Admin", Some("admin"), "Drain Revoke SetLogFilter"),
    ("Store", Some("admin"), "ListStored RemoveStored PinStored"),
    (
        "Runner",
        Some("execute"),
        "Execute ExecuteBatch ExecuteSession VerifyTransaction VerifyBatch VerifySession",
    ),
    ("Runner", None, "GetCapabilities"),
    (
        "Profile",
        Some("profile"),
        "ListProfiles GetProfile TopFunctions GetCallGraph DiffProfiles GetInsights",
    ),
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

/// Every call of the API, as in a path.
pub(crate) fn methods() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let of = |name| format!("{}.{}/{name}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| of(method.name())));
        }
    }
    methods
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_open_to_its_role_and_to_no_other() {
    let methods = methods();
    let calls = CALLS.iter().flat_map(|(service, role, names)| {
        let name = move |name| (format!("antares.v1.{service}Service/{name}"), *role);
        names.split(' ').map(name)
    });
    let calls: Vec<_> = calls.collect();
    for method in &methods {
        assert!(calls.iter().any(|(call, _)| call == method), "{method} has no row: who may call it?");
    }
    assert_eq!(methods.len(), calls.len());

    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    for (method, role) in &calls {
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
                is(&status, Code::PermissionDenied, "ROLE_MISSING");
            }
        }
        let status = call(&channel, method, &[], None).await;
        is(&status, Code::Unauthenticated, "CREDENTIALS_MISSING");
    }
    // Probes have no credentials, and get only the status.
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "{health:?}");
    let reflection = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    for method in [reflection, "antares.v1.RunnerService/Other"] {
        assert_eq!(call(&channel, method, &[], None).await.code(), Code::Unauthenticated, "{method}");
    }
}

/// Waits for a status.
async fn becomes(channel: &Channel, token: &str, is_refused_then: bool) {
    eventually("the caller is refused, or not", async || {
        let status = call(channel, EXECUTE, &bearer(token), None).await;
        is_refused(&status) == is_refused_then
    })
    .await;
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
    until("the broken file is refused", || server.reloads("jwks", "failed") > 0.0);
    becomes(&channel, &new, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_who_was_proven_and_not_who_is_said() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let client = async |subject| Client::with_token(&server, &issuer.sign(&claims(subject, |_| {}))).await;
    let elf = antares_tests::guests::bytes("exit-imc").unwrap();
    let request = of_tenant("two", inline(&elf, &[], v1::Tier::Interpreter));
    client("user/one").await.execute(request).await.unwrap();
    // The run is `one`'s, whatever it claimed; only callers that may act for others see another name.
    for (subject, said, runs) in [
        ("user/one", None, 1),
        ("user/two", None, 0),
        ("user/two", Some("one"), 0),
        ("gateway", Some("one"), 1),
        ("gateway", Some("two"), 0),
    ] {
        let request = v1::ListProfilesRequest::default();
        let request = said.map_or(Request::new(request), |tenant| of_tenant(tenant, request));
        let listed = client(subject).await.profiles.list_profiles(request).await.unwrap().into_inner();
        let seen: u64 = listed.scripts.iter().map(|script| script.runs).sum();
        assert_eq!(seen, runs, "{subject} as {said:?}");
    }
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

/// Refused tokens, each with the status and reason for its sender. The forgeries themselves are in
/// `jose_vectors.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_good_is_refused_and_only_its_owner_learns_why() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    let of = |subject: &str| bearer(&issuer.sign(&claims(subject, |_| {})));
    let with = |key: &str, value: Value| bearer(&issuer.sign(&claims("user/x", |all| all[key] = value)));
    let good = of("user/x").remove(0);
    let forged = bearer(&sign("first", &token_key(), &claims("user/x", |_| {})));
    for (authorization, code, wanted) in [
        (vec![], Code::Unauthenticated, "CREDENTIALS_MISSING"),
        (forged, Code::Unauthenticated, "TOKEN_INVALID"),
        (bearer(""), Code::Unauthenticated, "TOKEN_INVALID"),
        (vec!["Bearer".to_owned()], Code::Unauthenticated, "TOKEN_INVALID"),
        (vec!["Basic dXNlcjp3b3Jk".to_owned()], Code::Unauthenticated, "TOKEN_INVALID"),
        (vec![good.replace("Bearer ", "")], Code::Unauthenticated, "TOKEN_INVALID"),
        (vec![good.clone(), good.clone()], Code::Unauthenticated, "TOKEN_INVALID"),
        (vec![good.clone() + &"x".repeat(13_000)], Code::Unauthenticated, "TOKEN_TOO_LONG"),
        (with("exp", json!(now() - 600)), Code::Unauthenticated, "TOKEN_EXPIRED"),
        (with("nbf", json!(now() + 600)), Code::Unauthenticated, "TOKEN_NOT_YET_VALID"),
        (with("aud", json!(["a", "b"])), Code::Unauthenticated, "TOKEN_AUDIENCE"),
        (with("iss", json!("https://others")), Code::Unauthenticated, "TOKEN_ISSUER"),
        (with("exp", json!(null)), Code::Unauthenticated, "TOKEN_CLAIMS"),
        (of("somebody"), Code::PermissionDenied, "CALLER_UNKNOWN"),
        (of("gateway2"), Code::PermissionDenied, "CALLER_UNKNOWN"),
        (of("user/a/b"), Code::PermissionDenied, "CALLER_UNKNOWN"),
        (of("role/upload"), Code::PermissionDenied, "ROLE_MISSING"),
        (of("role/admin"), Code::PermissionDenied, "ROLE_MISSING"),
    ] {
        let status = call(&channel, EXECUTE, &authorization, None).await;
        assert_eq!((status.code(), &*reason(&status)), (code, wanted), "{authorization:?}: {status:?}");
    }
    let status = call(&channel, EXECUTE, &[good], None).await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(server.metric("antares_auth_refused_total{reason=\"TOKEN_INVALID\"}"), 6.0);
}
