//! Section `[web]`: whether browsers and callers by hand are served, and which pages may call.

use std::net::SocketAddr;

use http::{HeaderValue, Uri};

use crate::{
    check::Checker,
    raw_config::{RawConfig, RawWeb},
};

/// The listener for gRPC-web and JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// Address and port.
    pub address: SocketAddr,
    /// Whose pages may call, as browsers name them.
    pub(crate) origins: Vec<HeaderValue>,
}

pub(crate) fn check_web(config: &RawConfig, checker: &mut Checker) -> Option<Web> {
    let RawWeb { address, origins } = &config.web;
    let origins = origins.iter().filter_map(|origin| {
        let checked = origin_of(origin);
        if checked.is_none() {
            let problem =
                format!("{origin:?} is no origin: http or https, a host, perhaps a port, and nothing else");
            checker.note("web.origins", problem);
        }
        checked
    });
    let origins: Vec<_> = origins.collect();
    if address.is_empty() {
        if !config.web.origins.is_empty() {
            checker.note("web.origins", "makes no sense without web.address".to_owned());
        }
        return None;
    }
    let others = [("listen.address", &config.listen.address), ("metrics.address", &config.metrics.address)];
    let parsed = checker.address("web.address", address);
    for (key, other) in others {
        if parsed.port() != 0 && address == other {
            checker.note("web.address", format!("is the same as {key}"));
        }
    }
    Some(Web { address: parsed, origins })
}

/// `text` as a browser would send it; none for what no browser sends.
fn origin_of(text: &str) -> Option<HeaderValue> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let host = uri.host().filter(|host| !host.is_empty() && *host == host.to_ascii_lowercase())?;
    let port = uri.port_u16();
    // Browsers leave these out.
    let is_usual = matches!((scheme, port), ("http", Some(80)) | ("https", Some(443)));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    (!is_usual && text == format!("{scheme}://{host}{port}")).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_error::ConfigError, role::Role};

    #[track_caller]
    fn mistakes(text: &str) -> Vec<String> {
        let raw: RawConfig = toml::from_str(text).unwrap();
        match raw.check(Role::Both, &[]) {
            Ok(_) => Vec::new(),
            Err(ConfigError::Mistakes(mistakes)) => mistakes.into_iter().map(|mistake| mistake.key).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn it_is_off_unless_it_is_asked_for() {
        let web = |text: &str| {
            toml::from_str::<RawConfig>(text).unwrap().check(Role::Both, &[]).unwrap().listen.web
        };
        assert_eq!(web(""), None);
        let both =
            "[web]\naddress = \"127.0.0.1:0\"\norigins = [\"https://a.example\", \"http://[::1]:3000\"]";
        assert_eq!(web(both).unwrap().origins, ["https://a.example", "http://[::1]:3000"]);
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        for wrong in [
            "*",
            "null",
            "",
            "a.example",
            "https://a.example/",
            "https://A.example",
            "https://a.example:443",
            "http://a.example:80",
            "ftp://a.example",
            "https://u@a.example",
            "https://*.example/x",
            "https://a.example?x",
        ] {
            assert_eq!(origin_of(wrong), None, "{wrong}");
        }
        let config = "[web]\naddress = \"127.0.0.1:0\"\norigins = [\"*\"]";
        assert_eq!(mistakes(config), ["web.origins"]);
        assert_eq!(mistakes("[web]\norigins = [\"https://a.example\"]"), ["web.origins"]);
    }

    #[test]
    fn it_has_an_address_of_its_own_that_strangers_do_not_reach() {
        assert_eq!(mistakes("[web]\naddress = \"127.0.0.1:50051\""), ["web.address"]);
        assert_eq!(mistakes("[web]\naddress = \"127.0.0.1:9464\""), ["web.address"]);
        assert_eq!(mistakes("[web]\naddress = \"0.0.0.0:8080\""), ["web.address"]);
        assert!(mistakes("[listen]\nallow_open = true\n[web]\naddress = \"0.0.0.0:8080\"").is_empty());
    }
}
