//! Section `[tls]`, the runner's side of a connection to its compiler, and what a listener beyond this
//! machine must have.

use std::{net::SocketAddr, path::PathBuf};

use antares_tls::ClientFiles;

use crate::{
    check::Checker,
    raw_config::{RawConfig, RawRunner, RawTls},
    tls::Tls,
};

fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// None where the listener does not encrypt. That the files are there and fit is looked at when they are
/// read.
pub(crate) fn check_tls(raw: &RawTls, checker: &mut Checker) -> Option<Tls> {
    let handshake_time_max = checker.time("tls.handshake_ms_max", raw.handshake_ms_max);
    checker.count("tls.handshakes_max", raw.handshakes_max);
    for (key, value, needs, needed) in [
        ("tls.certificate", &raw.certificate, "tls.key", &raw.key),
        ("tls.key", &raw.key, "tls.certificate", &raw.certificate),
        ("tls.client_ca", &raw.client_ca, "tls.certificate", &raw.certificate),
        ("tls.client_crl", &raw.client_crl, "tls.client_ca", &raw.client_ca),
    ] {
        if !value.is_empty() && needed.is_empty() {
            checker.note(key, format!("needs {needs}"));
        }
    }
    Some(Tls {
        certificate: file(&raw.certificate)?,
        key: file(&raw.key)?,
        client_ca: file(&raw.client_ca),
        client_crl: file(&raw.client_crl),
        handshake_time_max,
        handshakes_max: raw.handshakes_max,
    })
}

/// What the runner shows its compiler, and whom it believes to be the compiler. Where it has no certificate
/// for that, it shows the listener's.
pub(crate) fn check_compiler_tls(config: &RawConfig, checker: &mut Checker) -> ClientFiles {
    let (raw, tls) = (&config.runner, &config.tls);
    if raw.compiler_certificate.is_empty() != raw.compiler_key.is_empty() {
        let problem = "makes no sense without runner.compiler_certificate, nor that without it".to_owned();
        checker.note("runner.compiler_key", problem);
    }
    let is_https = raw.compiler_url.starts_with("https://");
    for (key, value) in secrets(raw) {
        if !value.is_empty() && !is_https {
            checker.note(key, "makes no sense where runner.compiler_url is not https://".to_owned());
        }
    }
    let (certificate, key) = match raw.compiler_certificate.is_empty() {
        true => (&tls.certificate, &tls.key),
        false => (&raw.compiler_certificate, &raw.compiler_key),
    };
    ClientFiles { ca: file(&raw.compiler_ca), certificate: file(certificate), key: file(key) }
}

fn secrets(raw: &RawRunner) -> [(&'static str, &String); 4] {
    [
        ("runner.compiler_ca", &raw.compiler_ca),
        ("runner.compiler_certificate", &raw.compiler_certificate),
        ("runner.compiler_key", &raw.compiler_key),
        // Whoever is in between could take it.
        ("runner.compiler_token_file", &raw.compiler_token_file),
    ]
}

/// A listener that others can reach must encrypt and ask who they are, or it must be said that it does not.
pub(crate) fn check_open(
    config: &RawConfig,
    key: &str,
    address: SocketAddr,
    is_asked: bool,
    checker: &mut Checker,
) {
    let is_encrypted = !config.tls.certificate.is_empty();
    if address.ip().to_canonical().is_loopback() || config.listen.allow_open || is_encrypted && is_asked {
        return;
    }
    let lacks = match (is_encrypted, is_asked) {
        (true, _) => "without authentication (tls.client_ca, auth.jwks)",
        (false, true) => "without encryption (tls.certificate), which tokens need",
        (false, false) => "without encryption and authentication (tls.certificate, tls.client_ca)",
    };
    let problem = format!(
        "others can reach {address}, {lacks}: anyone there could run scripts. Listen on loopback, add what is missing, or say \
         listen.allow_open = true"
    );
    checker.note(key, problem);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_error::ConfigError, role::Role};

    #[track_caller]
    fn mistakes(text: &str, role: Role) -> Vec<String> {
        let raw: RawConfig = toml::from_str(text).unwrap();
        match raw.check(role, &[]) {
            Ok(_) => Vec::new(),
            Err(ConfigError::Mistakes(mistakes)) => mistakes.into_iter().map(|mistake| mistake.key).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn an_open_listener_beyond_loopback_must_be_wanted() {
        for (address, tls, expected) in [
            ("127.0.0.1:1", "", true),
            ("[::1]:1", "", true),
            ("[::ffff:127.0.0.2]:1", "", true),
            ("0.0.0.0:1", "", false),
            ("[::]:1", "", false),
            ("192.0.2.1:1", "certificate = \"c\"\nkey = \"k\"", false),
            ("192.0.2.1:1", "certificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"", true),
        ] {
            let listen = format!("[listen]\naddress = \"{address}\"\n");
            let closed = format!("{listen}[tls]\n{tls}\n");
            let expected = if expected { Vec::new() } else { vec!["listen.address"] };
            assert_eq!(mistakes(&closed, Role::Both), expected, "{closed}");
            let open = format!("{listen}allow_open = true\n[tls]\n{tls}\n");
            assert!(mistakes(&open, Role::Both).is_empty(), "{open}");
        }
    }

    #[test]
    fn halves_are_mistakes() {
        assert_eq!(mistakes("[tls]\ncertificate = \"c\"", Role::Both), ["tls.certificate"]);
        assert_eq!(mistakes("[tls]\nkey = \"k\"", Role::Both), ["tls.key"]);
        assert_eq!(mistakes("[tls]\nclient_ca = \"a\"", Role::Both), ["tls.client_ca"]);
        assert_eq!(mistakes("[tls]\nhandshakes_max = 0", Role::Both), ["tls.handshakes_max"]);
        let runner = "[runner]\ncompiler_url = \"https://c:1\"\ncompiler_certificate = \"c\"";
        assert_eq!(mistakes(runner, Role::Runner), ["runner.compiler_key"]);
        let plain = "[runner]\ncompiler_url = \"http://c:1\"\ncompiler_ca = \"c\"";
        assert_eq!(mistakes(plain, Role::Runner), ["runner.compiler_ca"]);
    }
}
