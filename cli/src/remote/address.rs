//! Parses the address of a server. Refuses whatever it does not understand, so that no part is silently
//! ignored.

use anyhow::anyhow;
use tonic::transport::Uri;

use crate::failure::Failure;

/// Default port: where `antares serve` listens by default.
const PORT_DEFAULT: u16 = 50051;

/// `http://host:port` for `http://host:port`, `host:port`, and the same without a port; `https://host:port`
/// likewise. `unix:///path` is a socket of this machine.
pub(crate) fn parse(text: &str) -> Result<String, Failure> {
    let wrong = |problem: &str| Failure::Usage(anyhow!("{text:?} is no address of a server: {problem}"));
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    match scheme {
        "http" | "https" => {}
        "unix" if rest.starts_with('/') => return Ok(text.to_owned()),
        "unix" => {
            return Err(wrong("the path of a socket begins with /, such as unix:///run/antares/admin.sock"));
        }
        _ => return Err(wrong("only http://, https:// and unix:// are spoken")),
    }
    let uri: Uri = format!("{scheme}://{rest}").parse().map_err(|_| wrong("it must be http://HOST:PORT"))?;
    let Some(authority) = uri.authority() else { return Err(wrong("it has no host")) };
    if authority.as_str().contains('@') {
        return Err(wrong("user names and passwords are not sent"));
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || rest.contains('#') {
        return Err(wrong("it must end with the port: servers have no paths"));
    }
    // Authorities such as `host:` and `host:99999` are ambiguous.
    let host = authority.host();
    match (authority.port_u16(), authority.as_str().strip_prefix(host)) {
        _ if host.is_empty() => Err(wrong("it has no host")),
        (Some(port), _) if port > 0 => Ok(format!("{scheme}://{host}:{port}")),
        (None, Some("")) => Ok(format!("{scheme}://{host}:{PORT_DEFAULT}")),
        _ => Err(wrong("its port is no number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_or_refused() {
        for (text, expected) in [
            ("127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("http://localhost:80", "http://localhost:80"),
            ("http://localhost:80/", "http://localhost:80"),
            ("localhost", "http://localhost:50051"),
            ("http://localhost", "http://localhost:50051"),
            ("https://host", "https://host:50051"),
            ("https://host:7/", "https://host:7"),
            ("[::1]", "http://[::1]:50051"),
            ("[::1]:7", "http://[::1]:7"),
            ("unix:///run/admin.sock", "unix:///run/admin.sock"),
        ] {
            assert_eq!(parse(text).ok().as_deref(), Some(expected), "{text}");
        }
        let wrong = "ftp://host:1 unix://run/admin.sock HTTPS://host:1 http://user@host:1 http://user:word@host:1 \
                     http://host:1/path host/path http://host:1?query http://host:1#part host: host:0 host:99999 \
                     host:port http://:1 http://";
        for text in wrong.split(' ').chain(["", "two words"]) {
            let failure = parse(text).unwrap_err();
            assert!(matches!(failure, Failure::Usage(_)), "{text}");
            assert!(failure.to_string().contains("is no address of a server"), "{failure}");
        }
    }
}
