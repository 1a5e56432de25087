//! Pages that services add to the HTTP address beside `/metrics`.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::RawQuery,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};

/// Bytes of a query string.
const QUERY_BYTES_MAX: usize = 1024;

/// What a page answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAnswer {
    /// The content.
    Found {
        /// Its media type.
        media_type: &'static str,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// There is nothing of the kind, and why.
    NotFound(String),
    /// The query makes no sense, and why.
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
    /// The page at `path`. `answer` gets the parameters of the query, as they are, without any decoding.
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

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("path", &self.path).finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_pairs() {
        let found = parameters(Some("seconds=5&&script=ab&flag"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, BTreeMap::from([pair("flag", ""), pair("script", "ab"), pair("seconds", "5")]));
        assert!(parameters(None).is_empty());
        assert!(parameters(Some(&"a".repeat(2000))).is_empty());
    }
}
