//! Pages of a listing, looked at before the client reads them: to it a page of HTML is an empty list.

use std::pin::Pin;

use bytes::BytesMut;
use futures_util::StreamExt as _;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
        ReqwestConnector,
    },
};

/// Longest page, bytes: a thousand objects take some hundred KiB.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// What a page of a list begins with, behind its declaration.
const LISTS: [&str; 2] = ["<ListBucketResult", "<EnumerationResults"];

/// Why an answer is no page.
#[derive(Debug, thiserror::Error)]
enum NoPage {
    #[error("what answers is no list of objects, it begins with {begin:?}")]
    Other { begin: String },
    #[error("a page of the list has more than {PAGE_BYTES_MAX} bytes")]
    TooLong,
}

/// Makes clients that look at the pages of listings.
#[derive(Debug)]
pub(crate) struct Connector;

#[derive(Debug)]
struct Service(HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(ReqwestConnector::default().connect(options)?)))
    }
}

fn is_list(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or("");
    query.split('&').any(|part| part == "list-type=2" || part == "comp=list")
}

fn check(page: &[u8]) -> Result<(), NoPage> {
    let begin = String::from_utf8_lossy(&page[..page.len().min(512)]);
    let mut text = begin.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with("<?xml") {
        text = text.split_once("?>").map_or("", |(_, rest)| rest).trim_start();
    }
    if LISTS.iter().any(|list| text.starts_with(list)) {
        return Ok(());
    }
    Err(NoPage::Other { begin: begin.chars().take(60).collect() })
}

async fn checked(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let (mut chunks, mut page) = (body.bytes_stream(), BytesMut::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if page.len() + chunk.len() > PAGE_BYTES_MAX {
            return Err(HttpError::new(HttpErrorKind::Decode, NoPage::TooLong));
        }
        page.extend_from_slice(&chunk);
    }
    check(&page).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    Ok(HttpResponse::from_parts(parts, page.freeze().into()))
}

impl HttpService for Service {
    fn call<'a, 'async_trait>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'a: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let is_list = is_list(&request);
            let response = self.0.execute(request).await?;
            if is_list && response.status().is_success() { checked(response).await } else { Ok(response) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_from_other_answers() {
        for page in [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"x\"/>",
            "<ListBucketResult></ListBucketResult>",
            "\u{feff}<?xml version=\"1.0\"?><EnumerationResults/>",
        ] {
            assert!(check(page.as_bytes()).is_ok(), "{page}");
        }
        for page in
            ["", "{}", "<html><body>Sign in</body></html>", "<?xml version=\"1.0\"?><Error/>", "\u{1}"]
        {
            assert!(check(page.as_bytes()).is_err(), "{page}");
        }
    }
}
