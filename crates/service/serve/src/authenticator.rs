//! Authentication and authorization of callers: names from certificates and tokens, and rules that map them
//! to tenants and roles.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_config::{Auth, AuthRule, CallerRole, Fits, KeySource, Roles};
use antares_tls::read;
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use rustls::pki_types::CertificateDer;
use strum::VariantNames as _;
use webpki::EndEntityCert;

use crate::{
    account::TENANT,
    identity::hashed,
    jwt::{Claims, TokenError, check, key_id},
    key_fetch::{self, KeyFetches},
    key_set::{self, JwksError, KeySet, Reader},
    metrics::Metrics,
    reload,
    roles::{Need, need},
    status::Fault,
};

/// How long a verified token is cached.
const BELIEVED: Duration = Duration::from_secs(30);

/// Wait of a caller while there are no keys.
const RETRY_KEYS: Duration = Duration::from_secs(5);

/// Cached tokens; others are verified at every call.
const BELIEVED_MAX: usize = 4_096;

/// Names in a client's certificate, verified against the configured authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientNames(Arc<[String]>);

impl ClientNames {
    /// URIs, then DNS names. An unreadable certificate has none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Self(Arc::new([])) };
        Self(parsed.valid_uri_names().chain(parsed.valid_dns_names()).map(str::to_owned).collect())
    }
}

/// Marks a call through the admin socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByAdminSocket;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its authenticated name.
    pub(crate) who: Arc<str>,
    pub(crate) tenant: Arc<str>,
    roles: Roles,
    pub(crate) any_tenant: bool,
}

impl Caller {
    /// A user of the admin socket.
    pub(crate) fn by_socket() -> Self {
        let roles = [CallerRole::Admin].into_iter().collect();
        Self { who: Arc::from("admin.socket"), tenant: Arc::from(""), roles, any_tenant: false }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.roles.has(CallerRole::Admin)
    }
}

/// A call refused for its caller, and the caller's name if authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    pub(crate) denied: Denied,
    pub(crate) who: Option<Arc<str>>,
    pub(crate) tenant: Arc<str>,
}

impl Stopped {
    fn of(denied: Denied, who: Option<&str>) -> Self {
        Self { denied, who: who.map(Arc::from), tenant: Arc::from("") }
    }

    /// Sets the authenticated tenant, if any, in the header that later layers read.
    pub(crate) fn name_tenant(&self, headers: &mut HeaderMap) {
        write_tenant(&self.tenant, headers);
    }
}

impl From<Denied> for Stopped {
    fn from(denied: Denied) -> Self {
        Self::of(denied, None)
    }
}

/// Why a call is refused, for the metric and the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Missing,
    Keys,
    Token(TokenError),
    Unknown,
    Role(CallerRole),
    Closed,
}

impl Denied {
    fn reasons() -> Vec<&'static str> {
        let own = [Self::Missing, Self::Keys, Self::Unknown, Self::Role(CallerRole::Admin), Self::Closed];
        own.into_iter().map(Self::reason).chain(TokenError::VARIANTS.iter().copied()).collect()
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Missing => "CREDENTIALS_MISSING",
            Self::Keys => "KEYS_UNAVAILABLE",
            Self::Token(error) => error.into(),
            Self::Unknown => "CALLER_UNKNOWN",
            Self::Role(_) => "ROLE_MISSING",
            Self::Closed => "CALL_CLOSED",
        }
    }

    /// Strangers learn only that they are; owners of genuine credentials learn their problem.
    pub(crate) fn fault(self) -> Fault {
        let reason = self.reason();
        match self {
            Self::Missing => Fault::unauthenticated(reason, "credentials are needed"),
            Self::Keys => Fault::unavailable(reason, "the issuer's keys are not known", RETRY_KEYS),
            Self::Token(error) => Fault::unauthenticated(reason, error.to_string()),
            Self::Unknown => Fault::denied(reason, "no rule of this server is for these credentials"),
            Self::Role(role) => {
                Fault::denied(reason, format!("the role {role} is needed")).metadata("role", role.into_str())
            }
            Self::Closed => Fault::denied(reason, "nobody may make this call"),
        }
    }
}

/// Identifies callers by the configured rules.
#[derive(Debug)]
pub(crate) struct Authenticator {
    auth: Auth,
    believed: Arc<ArcSwap<Believed>>,
    fetches: Option<Arc<KeyFetches>>,
    refused: IntCounterVec,
}

/// Keys and rules, and the tokens verified with them.
#[derive(Debug)]
struct Believed {
    /// None if the issuer's keys could not be fetched for too long.
    keys: Option<Arc<KeySet>>,
    rules: Arc<[AuthRule]>,
    tokens: Mutex<HashMap<[u8; 32], (Caller, SystemTime)>>,
}

impl Believed {
    fn new(keys: Option<Arc<KeySet>>, rules: Arc<[AuthRule]>) -> Self {
        Self { keys, rules, tokens: Mutex::default() }
    }
}

impl Authenticator {
    /// Reads the token keys, and rereads them on changes. Call it within the runtime if there is one.
    pub(crate) fn new(auth: &Auth, metrics: &Metrics) -> Result<Self, JwksError> {
        let refused = metrics.counters_of(
            "antares_auth_refused_total",
            "Calls refused by authentication or authorization, by reason.",
            "reason",
            &Denied::reasons(),
        );
        key_set::gauges(metrics);
        let believed = Arc::new(ArcSwap::from_pointee(Believed::new(None, auth.rules.clone().into())));
        let current = believed.clone();
        let store = move |keys: Option<KeySet>| {
            let keys = keys.map(Arc::new);
            current.rcu(|old| Believed::new(keys.clone(), old.rules.clone()));
        };
        let fetches = match auth.jwt.as_ref().map(|jwt| (&jwt.keys, jwt)) {
            None => None,
            Some((KeySource::Uri { .. }, jwt)) => Some(key_fetch::follow(jwt, metrics, store)),
            Some((KeySource::File(path), jwt)) => {
                let mut reader = Reader::new(jwt, metrics);
                store(Some(reader.first(&read(path)?)?));
                let path = path.clone();
                reload::watch("jwks", vec![path.clone()], metrics, move || {
                    store(Some(reader.read(&read(&path)?)?));
                    Ok::<_, JwksError>(())
                });
                None
            }
        };
        Ok(Self { auth: auth.clone(), believed, fetches, refused })
    }

    /// Applies `rules`.
    pub(crate) fn set_rules(&self, rules: Vec<AuthRule>) {
        let rules: Arc<[AuthRule]> = rules.into();
        self.believed.rcu(|old| Believed::new(old.keys.clone(), rules.clone()));
    }

    /// Fetches the key named by the token in `headers`, if it is unknown.
    pub(crate) fn fetch_for(&self, headers: &HeaderMap) -> Option<impl Future<Output = ()> + use<>> {
        let fetches = self.fetches.clone()?;
        let (_, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        let (id, believed) = (key_id(token)?, self.believed.clone());
        let is_known = move || {
            believed.load().keys.as_ref().is_some_and(|keys| keys.named(id.as_deref()).next().is_some())
        };
        (!is_known()).then_some(async move { fetches.next(is_known).await })
    }

    /// Whether callers must authenticate.
    pub(crate) fn is_on(&self) -> bool {
        self.auth.is_on()
    }

    /// Whether a call of `method` may go on, and its caller. With authentication, sets its tenant in
    /// `headers`.
    pub(crate) fn pass(
        &self,
        method: &str,
        names: Option<&ClientNames>,
        headers: &mut HeaderMap,
    ) -> Result<Option<Caller>, Stopped> {
        let need = need(method);
        if !self.auth.is_on() || need == Need::Nothing {
            return Ok(None);
        }
        let passed = self.caller(names, headers).and_then(|caller| {
            let denied = match need {
                Need::Nothing | Need::Known => return Ok(caller),
                Need::Role(role) if caller.roles.has(role) => return Ok(caller),
                Need::Role(role) => Denied::Role(role),
                Need::Never => Denied::Closed,
            };
            Err(Stopped { denied, who: Some(caller.who), tenant: caller.tenant })
        });
        match &passed {
            Ok(caller) => name_tenant(caller, headers),
            Err(stopped) => self.refused.with_label_values(&[stopped.denied.reason()]).inc(),
        }
        passed.map(Some)
    }

    /// A token, if present, overrides the certificate, which may be a proxy's.
    fn caller(&self, names: Option<&ClientNames>, headers: &HeaderMap) -> Result<Caller, Stopped> {
        let mut tokens = headers.get_all(AUTHORIZATION).iter();
        match (&self.auth.jwt, tokens.next(), tokens.next()) {
            (Some(jwt), Some(value), None) => of_token(&self.believed.load(), value, jwt.leeway),
            (Some(_), Some(_), Some(_)) => Err(Denied::Token(TokenError::Invalid).into()),
            _ => self.of_names(names.ok_or(Denied::Missing)?),
        }
    }

    fn of_names(&self, names: &ClientNames) -> Result<Caller, Stopped> {
        let found = self.believed.load().rules.iter().find_map(|rule| {
            let found = match rule.fits {
                Fits::Certificate(_) => {
                    names.0.iter().find_map(|name| Some((name.as_str(), rule.tenant_of(name)?)))
                }
                Fits::Token { .. } => None,
            };
            found.map(|(who, tenant)| Caller {
                who: who.into(),
                tenant,
                roles: rule.roles,
                any_tenant: rule.any_tenant,
            })
        });
        found.ok_or_else(|| Stopped::of(Denied::Unknown, names.0.first().map(String::as_str)))
    }
}

fn of_token(believed: &Believed, value: &HeaderValue, leeway: Duration) -> Result<Caller, Stopped> {
    let invalid = Denied::Token(TokenError::Invalid);
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(invalid)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(invalid.into());
    }
    let hash = hashed(&[token.as_bytes()]);
    let now = SystemTime::now();
    let tokens = || believed.tokens.lock();
    if let Some((caller, until)) = tokens().get(&hash)
        && now < *until
    {
        return Ok(caller.clone());
    }
    let keys = believed.keys.as_ref().ok_or(Denied::Keys)?;
    let claims = check(keys, token)
        .map_err(|error| Stopped::of(Denied::Token(error), error.subject(token).as_deref()))?;
    let found = believed.rules.iter().find_map(|rule| by_rule(rule, &claims));
    let caller = found.ok_or_else(|| Stopped::of(Denied::Unknown, Some(&claims.sub)))?;
    let end = UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp));
    let end = end.and_then(|end| end.checked_add(leeway)).unwrap_or(now + BELIEVED);
    let mut tokens = tokens();
    if tokens.len() >= BELIEVED_MAX {
        tokens.retain(|_, (_, until)| now < *until);
    }
    if tokens.len() < BELIEVED_MAX {
        tokens.insert(hash, (caller.clone(), end.min(now + BELIEVED)));
    }
    Ok(caller)
}

/// The caller with `claims`, if `rule` matches.
fn by_rule(rule: &AuthRule, claims: &Claims) -> Option<Caller> {
    let Fits::Token { claim, .. } = &rule.fits else { return None };
    let tenant = claims.texts(claim).into_iter().find_map(|text| rule.tenant_of(text))?;
    let named = |path: &String| claims.texts(path).into_iter().filter_map(|name| name.parse().ok());
    let roles = rule
        .roles_claim
        .as_ref()
        .map_or(rule.roles, |path| named(path).filter(|role: &CallerRole| rule.roles.has(*role)).collect());
    Some(Caller { who: claims.sub.as_str().into(), tenant, roles, any_tenant: rule.any_tenant })
}

/// Sets the tenant in the header that later layers read. The caller's own value counts only if allowed.
fn name_tenant(caller: &Caller, headers: &mut HeaderMap) {
    if caller.any_tenant && headers.contains_key(TENANT) {
        return;
    }
    write_tenant(&caller.tenant, headers);
}

fn write_tenant(tenant: &str, headers: &mut HeaderMap) {
    headers.remove(TENANT);
    if let Ok(value) = HeaderValue::from_str(tenant)
        && !tenant.is_empty()
    {
        headers.insert(TENANT, value);
    }
}
