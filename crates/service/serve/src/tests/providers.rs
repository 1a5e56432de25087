//! Tokens and key sets of Keycloak, Okta, Entra and Kubernetes, with their rules.

use antares_config::{CallerRole, ConfigFile, Role};
use aws_lc_rs::{
    rsa::{KeySize, PublicKeyComponents},
    signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header::AUTHORIZATION};
use serde_json::{Value, json};
use strum::VariantArray as _;

use super::jose_vectors::with;
use crate::{account::TENANT, authenticator::Authenticator, metrics::Metrics};

/// A tenant and its roles; none if the token is refused.
type Expected = Option<(&'static str, &'static [&'static str])>;

/// A provider's case: its key set's extra members, a token's claims, the rules, and the result.
struct Case {
    name: &'static str,
    key: Value,
    claims: Value,
    rules: &'static str,
    caller: Expected,
}

const KEYCLOAK: &str = r#"
[[auth.rules]]
claim = "azp"
token = "*"
tenant = "*"
roles = ["upload", "execute"]
roles_claim = "/resource_access/antares/roles"
"#;

const OKTA: &str = r#"
[[auth.rules]]
claim = "groups"
token = "antares-operators"
roles = ["admin"]
[[auth.rules]]
claim = "scp"
token = "antares.execute"
tenant = "okta"
roles = ["execute"]
"#;

const ENTRA: &str = r#"
[[auth.rules]]
claim = "azp"
token = "8d1d*"
tenant = "wallet"
roles = ["execute", "admin"]
roles_claim = "roles"
"#;

const KUBERNETES: &str = r#"
[[auth.rules]]
token = "system:serviceaccount:*:wallet"
tenant = "*"
roles = ["execute"]
[[auth.rules]]
claim = "/kubernetes.io/namespace"
token = "operations"
roles = ["admin"]
"#;

fn keycloak(name: &'static str, more: Value, caller: Expected) -> Case {
    let claims = json!({
        "iat": 1, "jti": "trrtcc:1", "aud": ["antares", "account"], "sub": "0b2f7c1e-8a1d-4c1e-9e37-0000000000a1",
        "typ": "Bearer", "azp": "wallet-backend", "acr": "1", "scope": "email profile",
        "realm_access": {"roles": ["offline_access", "default-roles-prod", "admin"]},
        "resource_access": {"antares": {"roles": ["execute", "admin"]}, "account": {"roles": ["upload"]}},
        "preferred_username": "service-account-wallet-backend", "client_id": "wallet-backend",
    });
    let key = json!({ "kid": "kc", "alg": "RS256", "use": "sig", "x5c": ["MIIC"], "x5t": "AAAA", "x5t#S256": "AAAA" });
    Case { name, key, claims: with(claims, &more), rules: KEYCLOAK, caller }
}

fn okta(name: &'static str, more: Value, caller: Expected) -> Case {
    let claims = json!({
        "ver": 1, "jti": "AT.1", "aud": "antares", "iat": 1, "cid": "0oa1", "uid": "00u1", "sub": "ada@example.com",
    });
    let key = json!({ "kid": "ok", "alg": "RS256", "use": "sig" });
    Case { name, key, claims: with(claims, &more), rules: OKTA, caller }
}

fn entra(name: &'static str, more: Value, caller: Expected) -> Case {
    let claims = json!({
        "aud": "11111111-2222-3333-4444-555555555555", "iat": 1, "nbf": 1, "aio": "E2", "azp": "8d1d-4c", "azpacr": "1",
        "idtyp": "app", "oid": "o", "rh": "1.A", "sub": "o", "tid": "t", "uti": "u", "ver": "2.0",
    });
    // Its keys do not name an algorithm.
    let key = json!({ "kid": "en", "use": "sig", "x5t": "en", "x5c": ["MIIC"], "cloud_instance_name": "c", "issuer": "i" });
    Case { name, key, claims: with(claims, &more), rules: ENTRA, caller }
}

fn kubernetes(name: &'static str, namespace: &str, account: &str, caller: Expected) -> Case {
    let claims = json!({
        "aud": ["antares"], "iat": 1, "nbf": 1, "jti": "j", "sub": format!("system:serviceaccount:{namespace}:{account}"),
        "kubernetes.io": {
            "namespace": namespace, "node": {"name": "n", "uid": "u"}, "pod": {"name": "p", "uid": "u"},
            "serviceaccount": {"name": account, "uid": "u"},
        },
    });
    let key = json!({ "kid": "k8", "alg": "RS256", "use": "sig" });
    Case { name, key, claims, rules: KUBERNETES, caller }
}

fn cases() -> Vec<Case> {
    vec![
        keycloak("a client's roles that the rule has too", json!({}), Some(("wallet-backend", &["execute"]))),
        keycloak("no roles", json!({ "resource_access": {} }), Some(("wallet-backend", &[]))),
        keycloak(
            "roles of another form",
            json!({ "resource_access": {"antares": "execute"} }),
            Some(("wallet-backend", &[])),
        ),
        keycloak("a client that is no tenant's name", json!({ "azp": "a b" }), None),
        keycloak("no client", json!({ "azp": null }), None),
        keycloak("an audience of others", json!({ "aud": "account" }), None),
        okta("a scope", json!({ "scp": ["openid", "antares.execute"] }), Some(("okta", &["execute"]))),
        okta("a group", json!({ "groups": ["Everyone", "antares-operators"] }), Some(("", &["admin"]))),
        okta("scopes in one text", json!({ "scp": "openid antares.execute" }), Some(("okta", &["execute"]))),
        okta("a scope that begins alike", json!({ "scp": ["antares.execute.none"] }), None),
        entra("app roles", json!({ "roles": ["execute", "Other.All"] }), Some(("wallet", &["execute"]))),
        entra("another client", json!({ "azp": "9999", "roles": ["admin"] }), None),
        entra("a list of lists", json!({ "roles": [["admin"], 1] }), Some(("wallet", &[]))),
        kubernetes("a service account", "shop", "wallet", Some(("shop", &["execute"]))),
        kubernetes("a namespace", "operations", "any", Some(("", &["admin"]))),
        kubernetes("another account", "shop", "other", None),
    ]
}

#[tokio::test]
async fn claims_of_providers_make_tenants_and_roles() {
    let signer = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let public: PublicKeyComponents<Vec<u8>> = signer.public_key().into();
    for case in cases() {
        let [n, e] = [&public.n, &public.e].map(|number| URL_SAFE_NO_PAD.encode(number));
        let key = with(case.key.clone(), &json!({ "kty": "RSA", "n": n, "e": e }));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json!({ "keys": [key] }).to_string()).unwrap();
        let text = format!(
            "[auth]\njwks = {:?}\nissuer = \"https://issuer.test\"\n\
             audiences = [\"antares\", \"11111111-2222-3333-4444-555555555555\"]\n{}",
            file.path(),
            case.rules
        );
        let auth = text.parse::<ConfigFile>().unwrap().check(Role::Both, &[]).unwrap().auth;
        let authenticator = Authenticator::new(&auth, &Metrics::new()).unwrap();
        let claims = with(case.claims, &json!({ "iss": "https://issuer.test", "exp": 9_999_999_999_u64 }));
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": case.key["kid"] }).to_string();
        let message =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let mut signature = vec![0; signer.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        signer.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
        let token = format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature));
        let pass = |method: &str| {
            let mut headers = HeaderMap::from_iter([(AUTHORIZATION, token.parse().unwrap())]);
            let caller = authenticator.pass(method, None, &mut headers);
            caller
                .map(|_| headers.get(TENANT).map_or(String::new(), |name| name.to_str().unwrap().to_owned()))
        };
        let known = pass("antares.v1.RunnerService/GetCapabilities");
        assert_eq!(known.as_deref().ok(), case.caller.map(|(tenant, _)| tenant), "{}", case.name);
        let calls = [
            "CompilerService/Upload",
            "CompilerService/Compile",
            "RunnerService/Execute",
            "ProfileService/GetProfile",
            "AdminService/Drain",
        ];
        for (role, call) in CallerRole::VARIANTS.iter().zip(calls) {
            let expected = case.caller.is_some_and(|(_, roles)| roles.contains(&role.into_str()));
            assert_eq!(pass(&format!("antares.v1.{call}")).is_ok(), expected, "{}: {role}", case.name);
        }
    }
}
