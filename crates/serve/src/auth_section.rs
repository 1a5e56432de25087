//! Section `[auth]`: whose tokens are taken, and who is which tenant with which roles.

use std::{path::PathBuf, sync::Arc};

use crate::{
    account::TENANT_BYTES_MAX,
    check::Checker,
    key_set::Jwt,
    raw_config::{RawConfig, RawRule},
    roles::{CallerRole, Roles},
};

/// What in a rule stands for the part of a name that `*` met.
const MET: &str = "*";

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// Whether clients show certificates.
    pub certificates: bool,
    /// Whose tokens are taken, if any are.
    pub jwt: Option<Jwt>,
    pub(crate) rules: Vec<Rule>,
}

/// A rule, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) fits: Fits,
    tenant: String,
    pub(crate) roles: Roles,
    pub(crate) any_tenant: bool,
}

/// Whom a rule fits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fits {
    Certificate(String),
    Token(String),
}

impl Rule {
    /// The tenant of whom `name` names, if the rule fits: a name that a tenant can have.
    pub(crate) fn tenant_of(&self, name: &str) -> Option<Arc<str>> {
        let (Fits::Certificate(pattern) | Fits::Token(pattern)) = &self.fits;
        let met = met(pattern, name)?;
        let tenant = if self.tenant == MET { met } else { &self.tenant };
        (tenant.is_empty() && self.tenant.is_empty() || is_tenant(tenant)).then(|| Arc::from(tenant))
    }
}

/// What the `*` of `pattern` stands for in `text`, at least one character; nothing if it has none. None if it
/// does not fit.
fn met<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == text).then_some(""),
        Some((start, end)) => text.strip_prefix(start)?.strip_suffix(end).filter(|met| !met.is_empty()),
    }
}

/// Whether a tenant can have this name.
pub(crate) fn is_tenant(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=TENANT_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Auth {
    /// Whether callers are asked who they are.
    pub(crate) fn is_on(&self) -> bool {
        self.certificates || self.jwt.is_some()
    }
}

pub(crate) fn check_auth(config: &RawConfig, checker: &mut Checker) -> Auth {
    let raw = &config.auth;
    let certificates = !config.tls.client_ca.is_empty();
    let leeway = checker.time("auth.leeway_ms", raw.leeway_ms);
    let jwt = (!raw.jwks.is_empty()).then(|| Jwt {
        jwks: PathBuf::from(&raw.jwks),
        issuer: raw.issuer.clone(),
        audience: raw.audience.clone(),
        leeway,
    });
    for (key, value) in [("auth.issuer", &raw.issuer), ("auth.audience", &raw.audience)] {
        match (&jwt, value.is_empty()) {
            (Some(_), true) => checker.note(key, "is needed with auth.jwks".to_owned()),
            (None, false) => checker.note(key, "makes no sense without auth.jwks".to_owned()),
            _ => {}
        }
    }
    if jwt.is_some() && raw.rules.is_empty() {
        checker.note("auth.rules", "tokens let nobody in without a rule for them".to_owned());
    }
    let mut rules = Vec::new();
    for (index, rule) in raw.rules.iter().enumerate() {
        rules.extend(check_rule(index, rule, (certificates, jwt.is_some()), checker));
    }
    Auth { certificates, jwt, rules }
}

/// `known` says whether certificates and tokens are asked for.
fn check_rule(index: usize, raw: &RawRule, known: (bool, bool), checker: &mut Checker) -> Option<Rule> {
    let mut wrong = |problem: String| checker.note(&format!("auth.rules[{index}]"), problem);
    let fits = match (raw.certificate.is_empty(), raw.token.is_empty()) {
        (false, true) => Fits::Certificate(raw.certificate.clone()),
        (true, false) => Fits::Token(raw.token.clone()),
        _ => {
            wrong("must have certificate or token, one of them".to_owned());
            return None;
        }
    };
    let (pattern, is_asked, needed) = match &fits {
        Fits::Certificate(pattern) => (pattern, known.0, "tls.client_ca"),
        Fits::Token(pattern) => (pattern, known.1, "auth.jwks"),
    };
    if !is_asked {
        wrong(format!("fits nobody without {needed}"));
    }
    let stars = pattern.matches('*').count();
    if stars > 1 {
        wrong(format!("{pattern:?} has more than one *"));
    }
    if raw.tenant == MET && stars == 0 {
        wrong(format!("tenant = \"*\" needs a * in {pattern:?}"));
    } else if raw.tenant != MET && !raw.tenant.is_empty() && !is_tenant(&raw.tenant) {
        let letters = format!("1 to {TENANT_BYTES_MAX} letters, digits, '.', '_' or '-'");
        wrong(format!("tenant {:?} is no name of {letters}", raw.tenant));
    }
    for name in raw.roles.iter().filter(|name| CallerRole::named(name).is_none()) {
        let all = CallerRole::ALL.map(CallerRole::name).join(", ");
        wrong(format!("no role is called {name:?}; there are {all}"));
    }
    let roles = raw.roles.iter().filter_map(|name| CallerRole::named(name)).collect();
    Some(Rule { fits, tenant: raw.tenant.clone(), roles, any_tenant: raw.any_tenant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_error::ConfigError, role::Role as Runs};

    #[test]
    fn patterns_meet_one_part() {
        assert_eq!(met("spiffe://d/ns/*/sa/node", "spiffe://d/ns/a-b/sa/node"), Some("a-b"));
        assert_eq!(met("*", "all"), Some("all"));
        assert_eq!(met("exact", "exact"), Some(""));
        for (pattern, text) in [("a*b", "ab"), ("exact", "exacter"), ("a*", "ba"), ("ab*ba", "aba")] {
            assert_eq!(met(pattern, text), None, "{pattern} {text}");
        }
        let rule = Rule {
            fits: Fits::Token("u/*".to_owned()),
            tenant: MET.to_owned(),
            roles: Roles::all(),
            any_tenant: false,
        };
        assert_eq!(rule.tenant_of("u/x.y").as_deref(), Some("x.y"));
        // No tenant can have such a name: nobody gets to be another by it.
        assert_eq!(rule.tenant_of("u/x/y"), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[auth]\njwks = \"j\"", &["auth.issuer", "auth.audience", "auth.rules"][..]),
            ("[auth]\nissuer = \"i\"", &["auth.issuer"]),
            ("[[auth.rules]]\ncertificate = \"a\"", &["auth.rules[0]"]),
            ("[[auth.rules]]", &["auth.rules[0]"]),
            ("[[auth.rules]]\ntoken = \"a\"\ncertificate = \"b\"", &["auth.rules[0]"]),
        ] {
            let raw: RawConfig = toml::from_str(text).unwrap();
            let Err(ConfigError::Mistakes(mistakes)) = raw.check(Runs::Both, &[]) else { panic!("{text}") };
            let keys: Vec<_> = mistakes.into_iter().map(|mistake| mistake.key).collect();
            assert_eq!(keys, expected, "{text}");
        }
        let tls = "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[[auth.rules]]\n";
        for rule in [
            "certificate = \"a**\"",
            "certificate = \"a\"\ntenant = \"*\"",
            "certificate = \"a\"\ntenant = \"a b\"",
            "certificate = \"a\"\nroles = [\"root\"]",
        ] {
            let raw: RawConfig = toml::from_str(&format!("{tls}{rule}")).unwrap();
            assert!(raw.check(Runs::Both, &[]).is_err(), "{rule}");
        }
    }
}
