//! Sections `[auth]` and `[admin]`: accepted tokens, rules that map callers to tenants and roles, and who
//! administers.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::{check::Checker, section::section};

section! {
/// Who may call.
"auth": RawAuth {
    /// Keys of the token issuer: a JWKS file, or the issuer's `jwks_uri` (`https://...`), which is read every
    /// five minutes and when a token names an unknown key; empty disables tokens.
    jwks: text;
    /// PEM file with the certificate authorities of that URL; empty uses those of the system.
    jwks_ca: file;
    /// Issuer (`iss`) that tokens must name.
    issuer: text;
    /// Accepted audiences (`aud`); a token must have one of them.
    audiences: list;
    /// Rules that map callers to tenants and roles; the first match applies.
    rules: rules;
}
}

section! {
/// Maps callers to a tenant and roles.
"auth.rules": RawRule {
    /// Matches certificates with this URI or DNS name; one `*` matches anything.
    certificate: text;
    /// Matches tokens with this subject (`sub`), or this value of `claim`.
    token: text;
    /// The claim instead of `sub`: a name such as `azp`, or a JSON pointer such as `/realm_access/roles`. One
    /// item of a list must match.
    claim: text;
    /// The tenant; `*` stands for the text that the `*` above matched.
    tenant: text;
    /// Some of `upload`, `compile`, `execute`, `profile`, `admin`.
    roles: list;
    /// A claim with the caller's roles: the caller has those of `roles` that it names.
    roles_claim: text;
    /// Whether `antares-tenant` may name another tenant.
    any_tenant: flag;
}
}

/// Maximum clock difference between issuer and server.
const LEEWAY: Duration = Duration::from_secs(60);

/// Maximum length of a tenant's name in bytes.
pub const TENANT_BYTES_MAX: usize = 64;

/// The claim that rules fit by default.
const SUBJECT: &str = "sub";

/// In a rule's tenant, stands for the part of the name that `*` matched.
const MET: &str = "*";

/// Authentication and authorization of callers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// Whether clients must present certificates.
    pub certificates: bool,
    /// Accepted tokens, if any.
    pub jwt: Option<Jwt>,
    /// Rules that map callers to tenants and roles; the first match counts.
    pub rules: Vec<AuthRule>,
}

/// Accepted tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Where the issuer's keys (JWKS) are.
    pub keys: KeySource,
    /// The required `iss` claim.
    pub issuer: String,
    /// The audiences, one of which the `aud` claim must have.
    pub audiences: Vec<String>,
    /// Maximum clock difference.
    pub leeway: Duration,
}

/// Where an issuer's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Uri {
        /// The issuer's `jwks_uri`.
        url: String,
        /// The authorities of its certificate, PEM; those of the system otherwise.
        ca: Option<PathBuf>,
    },
}

/// A validated rule.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthRule {
    /// The callers that the rule matches.
    pub fits: Fits,
    tenant: String,
    /// Roles of these callers.
    pub roles: Roles,
    /// The claim that must name a role too.
    pub roles_claim: Option<String>,
    /// Whether these callers may name another tenant.
    pub any_tenant: bool,
}

/// Matcher of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Fits {
    /// Certificates with this name.
    Certificate(String),
    /// Tokens with this value of a claim.
    Token {
        /// A name, or a JSON pointer.
        claim: String,
        /// The value.
        pattern: String,
    },
}

impl AuthRule {
    /// The tenant of the caller `name`, if the rule matches and the result is a valid tenant name.
    pub fn tenant_of(&self, name: &str) -> Option<Arc<str>> {
        let (Fits::Certificate(pattern) | Fits::Token { pattern, .. }) = &self.fits;
        let met = met(pattern, name)?;
        let tenant = if self.tenant == MET { met } else { &self.tenant };
        (tenant.is_empty() && self.tenant.is_empty() || is_tenant(tenant)).then(|| Arc::from(tenant))
    }
}

/// The part of `text` that the `*` of `pattern` matches, at least one character; empty if `pattern` has no
/// `*`. `None` if `pattern` does not match.
fn met<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == text).then_some(""),
        Some((start, end)) => text.strip_prefix(start)?.strip_suffix(end).filter(|met| !met.is_empty()),
    }
}

/// Whether `name` is a valid name of a tenant.
pub fn is_tenant(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=TENANT_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Auth {
    /// Whether callers must authenticate.
    pub fn is_on(&self) -> bool {
        self.certificates || self.jwt.is_some()
    }
}

impl RawAuth {
    /// `has_certificates`: whether clients must present certificates.
    pub(crate) fn check(&self, has_certificates: bool, checker: &mut Checker) -> Auth {
        let jwt = self.key_source(checker).map(|keys| Jwt {
            keys,
            issuer: self.issuer.clone(),
            audiences: self.audiences.clone(),
            leeway: LEEWAY,
        });
        let has_audience = self.audiences.iter().any(|audience| !audience.is_empty());
        for (key, has) in [("auth.issuer", !self.issuer.is_empty()), ("auth.audiences", has_audience)] {
            match (&jwt, has) {
                (Some(_), false) => checker.record(key, "is needed with auth.jwks"),
                (None, true) => checker.record(key, "makes no sense without auth.jwks"),
                _ => {}
            }
        }
        if (has_certificates || jwt.is_some()) && self.rules.is_empty() {
            let problem = "certificates and tokens let nobody in without a rule for them";
            checker.record("auth.rules", problem);
        }
        let mut auth = Auth { certificates: has_certificates, jwt, rules: Vec::new() };
        for (index, rule) in self.rules.iter().enumerate() {
            auth.rules.extend(rule.check(index, &auth, checker));
        }
        auth
    }

    /// Whether tokens are accepted.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.jwks.is_empty()
    }

    fn key_source(&self, checker: &mut Checker) -> Option<KeySource> {
        let ca = checker.file("auth.jwks_ca", &self.jwks_ca);
        if !self.jwks.contains("://") {
            if ca.is_some() {
                checker.record("auth.jwks_ca", "makes no sense where auth.jwks is not https://");
            }
            return self.has_tokens().then(|| KeySource::File(PathBuf::from(&self.jwks)));
        }
        // A party that can change the response can sign tokens.
        if !is_local(&self.jwks) {
            checker.url_of("auth.jwks", &self.jwks, &["https"]);
        }
        Some(KeySource::Uri { url: self.jwks.clone(), ca })
    }
}

/// Whether `url` is plain HTTP to this machine.
fn is_local(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().filter(|uri| uri.scheme_str() == Some("http")).and_then(http::Uri::host);
    let address = host.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    address.is_some_and(|address| address.is_loopback())
}

impl RawRule {
    /// `auth`: the accepted certificates and tokens.
    fn check(&self, index: usize, auth: &Auth, checker: &mut Checker) -> Option<AuthRule> {
        let mut wrong = |problem: String| checker.record(&format!("auth.rules[{index}]"), problem);
        let fits = match (self.certificate.is_empty(), self.token.is_empty()) {
            (false, true) => Fits::Certificate(self.certificate.clone()),
            (true, false) => {
                let claim = if self.claim.is_empty() { SUBJECT } else { &self.claim };
                Fits::Token { claim: claim.to_owned(), pattern: self.token.clone() }
            }
            _ => {
                wrong("must have certificate or token, one of them".to_owned());
                return None;
            }
        };
        let (pattern, is_asked, needed) = match &fits {
            Fits::Certificate(pattern) => (pattern, auth.certificates, "tls.client_ca"),
            Fits::Token { pattern, .. } => (pattern, auth.jwt.is_some(), "auth.jwks"),
        };
        let has_claim = !self.claim.is_empty() || !self.roles_claim.is_empty();
        if has_claim && matches!(fits, Fits::Certificate(_)) {
            wrong("a certificate has no claims".to_owned());
        }
        if !is_asked {
            wrong(format!("fits nobody without {needed}"));
        }
        let stars = pattern.matches('*').count();
        if stars > 1 {
            wrong(format!("{pattern:?} has more than one *"));
        }
        if self.tenant == MET && stars == 0 {
            wrong(format!("tenant = \"*\" needs a * in {pattern:?}"));
        } else if self.tenant != MET && !self.tenant.is_empty() && !is_tenant(&self.tenant) {
            let letters = format!("1 to {TENANT_BYTES_MAX} letters, digits, '.', '_' or '-'");
            wrong(format!("tenant {:?} is no name of {letters}", self.tenant));
        }
        for name in self.roles.iter().filter(|name| name.parse::<CallerRole>().is_err()) {
            let all = CallerRole::VARIANTS.iter().map(CallerRole::into_str).collect::<Vec<_>>().join(", ");
            wrong(format!("no role is called {name:?}; there are {all}"));
        }
        let roles = self.roles.iter().filter_map(|name| name.parse::<CallerRole>().ok()).collect();
        let roles_claim = (!self.roles_claim.is_empty()).then(|| self.roles_claim.clone());
        Some(AuthRule { fits, tenant: self.tenant.clone(), roles, roles_claim, any_tenant: self.any_tenant })
    }
}

/// A role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CallerRole {
    /// Store scripts, and query which are stored.
    Upload,
    /// Compile, and fetch scripts and native code.
    Compile,
    /// Run scripts and verify transactions.
    Execute,
    /// Read profiles.
    Profile,
    /// Administer the services.
    Admin,
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// The set of all roles.
    pub fn all() -> Self {
        CallerRole::VARIANTS.iter().copied().collect()
    }

    /// Whether the set contains `role`.
    pub fn has(self, role: CallerRole) -> bool {
        self.0 & 1 << role as u8 != 0
    }
}

impl FromIterator<CallerRole> for Roles {
    fn from_iter<I: IntoIterator<Item = CallerRole>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | 1 << role as u8))
    }
}

section! {
/// Operators in addition to those of `[auth]`.
"admin": RawAdmin => AdminAccess {
    /// Unix socket that only this user may open; its callers have the role admin, with or without `[auth]`:
    /// `--server unix:///run/antares/admin.sock`. Empty for none.
    socket: folder_or_none;
    /// Without authentication: whether all callers from the loopback network have the role admin. A proxy on
    /// this machine makes every caller such a peer.
    loopback: flag;
}
}

/// Maximum length of a socket's path in bytes: the size of `sun_path` without its final zero.
const SOCKET_BYTES_MAX: usize = 107;

impl RawAdmin {
    /// `is_asked`: whether callers must authenticate.
    pub(crate) fn section(&self, is_asked: bool, checker: &mut Checker) -> AdminAccess {
        let bytes = self.socket.as_os_str().len();
        if bytes > SOCKET_BYTES_MAX {
            let problem = format!("has {bytes} bytes; a socket's path has at most {SOCKET_BYTES_MAX}");
            checker.record("admin.socket", problem);
        }
        if self.loopback && is_asked {
            checker.record("admin.loopback", "makes no sense with [auth], whose rules say who administers");
        }
        self.check(checker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_meet_one_part() {
        assert_eq!(met("spiffe://d/ns/*/sa/node", "spiffe://d/ns/a-b/sa/node"), Some("a-b"));
        assert_eq!(met("*", "all"), Some("all"));
        assert_eq!(met("exact", "exact"), Some(""));
        for (pattern, text) in [("a*b", "ab"), ("exact", "exacter"), ("a*", "ba"), ("ab*ba", "aba")] {
            assert_eq!(met(pattern, text), None, "{pattern} {text}");
        }
        let rule = AuthRule {
            fits: Fits::Token { claim: SUBJECT.to_owned(), pattern: "u/*".to_owned() },
            tenant: MET.to_owned(),
            roles: Roles::all(),
            roles_claim: None,
            any_tenant: false,
        };
        assert_eq!(rule.tenant_of("u/x.y").as_deref(), Some("x.y"));
        // Not a valid tenant name: it must not grant another tenant's identity.
        assert_eq!(rule.tenant_of("u/x/y"), None);
    }
}
