//! Pages of services on the HTTP address, in addition to `/metrics`.

use std::{collections::BTreeMap, net::IpAddr, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::{RawQuery, Request},
    http::{
        HeaderMap, StatusCode, Uri,
        header::{CONTENT_TYPE, HOST},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};

/// Bytes of a query string.
const QUERY_BYTES_MAX: usize = 1024;

/// Response of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAnswer {
    /// The content.
    Found {
        /// Its media type.
        media_type: &'static str,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Nothing was found, and why.
    NotFound(String),
    /// The query is invalid, and why.
    Invalid(String),
}

type Answering = Pin<Box<dyn Future<Output = PageAnswer> + Send>>;

/// A page.
#[derive(Clone)]
pub struct Page {
    path: &'static str,
    answer: Arc<dyn Fn(BTreeMap<String, String>) -> Answering + Send + Sync>,
}

impl Page {
    /// The page at `path`. `answer` gets the query's parameters without decoding.
    pub fn new<F>(
        path: &'static str,
        answer: impl Fn(BTreeMap<String, String>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = PageAnswer> + Send + 'static,
    {
        Self { path, answer: Arc::new(move |query| Box::pin(answer(query))) }
    }

    /// Adds the page to `router`.
    pub(crate) fn add_to(self, router: Router) -> Router {
        let Self { path, answer } = self;
        router.route(path, get(move |RawQuery(query)| respond(answer(parameters(query.as_deref())))))
    }
}

fn parameters(query: Option<&str>) -> BTreeMap<String, String> {
    let query = query.filter(|query| query.len() <= QUERY_BYTES_MAX).unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    pairs.map(pair).collect()
}

async fn respond(answering: Answering) -> Response {
    match answering.await {
        PageAnswer::Found { media_type, bytes } => ([(CONTENT_TYPE, media_type)], bytes).into_response(),
        PageAnswer::NotFound(why) => (StatusCode::NOT_FOUND, why + "\n").into_response(),
        PageAnswer::Invalid(why) => (StatusCode::BAD_REQUEST, why + "\n").into_response(),
    }
}

/// Pages for programs, without data that another site's page could use; scrapers and probes use any name.
const FOR_ALL: [&str; 3] = ["/metrics", "/healthz", "/livez"];

/// The configured names.
#[derive(Clone, Debug)]
pub(crate) struct PageHosts(pub(crate) Arc<[String]>);

impl PageHosts {
    /// `names` are in lower case.
    fn has(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        host.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.0.contains(&name)
    }

    /// Whether the request's host names are all ours and unambiguous.
    fn takes(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        // User names before an `@` are not allowed in the header.
        let host = host.to_str().ok().filter(|host| !host.contains('@'));
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        host.is_some_and(|host| self.has(&host)) && uri.authority().is_none_or(|asked| self.has(asked))
    }

    /// Passes a request to its page.
    pub(crate) async fn pass(self, request: Request, next: Next) -> Response {
        if FOR_ALL.contains(&request.uri().path()) || self.takes(request.uri(), request.headers()) {
            return next.run(request).await;
        }
        let problem = "ask by an IP address, by localhost or by a name in metrics.hosts\n";
        (StatusCode::MISDIRECTED_REQUEST, problem).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn queries_are_pairs() {
        let found = parameters(Some("seconds=5&&script=ab&flag"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, BTreeMap::from([pair("flag", ""), pair("script", "ab"), pair("seconds", "5")]));
        assert!(parameters(None).is_empty());
        assert!(parameters(Some(&"a".repeat(2000))).is_empty());
    }

    fn takes(hosts: &[&str], uri: &str) -> bool {
        let names = PageHosts(["antares.example".to_owned()].into());
        let hosts = hosts.iter().map(|host| (HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap()));
        names.takes(&uri.parse().unwrap(), &hosts.collect())
    }

    #[test]
    fn names_of_strangers_are_refused() {
        let taken = "localhost LOCALHOST:9464 localhost. a.localhost:1 127.0.0.1 127.0.0.1:9464 [::1]:9464 \
                     [fe80::1] 10.0.0.7:80 antares.example Antares.Example:9464 antares.example.";
        for host in taken.split(' ') {
            assert!(takes(&[host], "/"), "{host}");
        }
        let refused = "evil.test evil.test:9464 localhost.evil.test 127.0.0.1.evil.test xlocalhost \
                       antares.example.evil.test evil-antares.example x@localhost localhost@evil.test [::1 \
                       evil.test/localhost 127.1 0x7f000001 2130706433 .. localhost.. \u{e4}";
        for host in refused.split(' ').chain(["", "localhost evil"]) {
            assert!(!takes(&[host], "/"), "{host}");
        }
        assert!(!takes(&[], "/") && !takes(&["localhost", "localhost"], "/"));
        assert!(!takes(&["localhost"], "http://evil.test/") && takes(&["localhost"], "http://127.0.0.1:1/"));
    }
}
