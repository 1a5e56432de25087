//! The address of a node. What is not understood is refused: nothing is left out that a user meant.

use http::Uri;

use crate::error::NodeError;

/// `url` as far as it holds no secret: its scheme and host.
pub(crate) fn public(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

/// The address, checked.
///
/// # Errors
/// It is none of `http://HOST[:PORT][/PATH]` and the same with `https`.
pub(crate) fn parse(url: &str) -> Result<Uri, NodeError> {
    let wrong = |problem| NodeError::Address { url: public(url), problem };
    let uri: Uri = url.parse().map_err(|_| wrong("it must be http://HOST:PORT"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err(wrong("only http:// and https:// are spoken")),
        None => return Err(wrong("it must begin with http:// or https://")),
    }
    let Some(authority) = uri.authority() else { return Err(wrong("it has no host")) };
    if authority.as_str().contains('@') {
        return Err(wrong("user names and passwords are not sent"));
    }
    if authority.host().is_empty() {
        return Err(wrong("it has no host"));
    }
    let rest = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if !rest.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(wrong("its port is no number from 1 to 65535"));
    }
    if url.contains('#') {
        return Err(wrong("it has a part behind #, which is not sent"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn secrets_are_not_told() {
        for (url, told) in [
            ("https://host:1/v2/KEY?key=KEY#KEY", "https://host:1"),
            ("http://user:KEY@host", "http://host"),
            ("host/KEY", "host"),
            ("ftp://host/KEY", "ftp://host"),
        ] {
            assert_eq!(public(url), told);
        }
    }

    #[test]
    fn addresses_are_understood_or_refused() {
        for url in
            ["http://127.0.0.1:8114", "http://[::1]:8114/", "https://node.example/rpc?key=1", "http://host"]
        {
            assert!(parse(url).unwrap().host().is_some(), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:8114",
            "localhost",
            "/path",
            "ftp://host",
            "http://",
            "http://user:word@host",
            "http://host:",
            "http://host:0",
            "http://host:99999",
            "http://host/#part",
        ] {
            assert!(matches!(parse(url), Err(NodeError::Address { .. })), "{url}");
        }
    }
}
