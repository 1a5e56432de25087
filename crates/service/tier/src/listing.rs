//! HTTP client of the object store. It follows no redirects, which would send credentials to another host. It
//! also validates pages of a listing, because the object store client parses a page of HTML as an empty list.

use std::{pin::Pin, time::Duration};

use bytes::BytesMut;
use futures_util::StreamExt as _;
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
};

/// Maximum length of a page in bytes: a thousand objects take a few hundred KiB.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Time limits for connecting and for a complete response.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Root elements of a list page, after the XML declaration.
const LISTS: [&str; 2] = ["<ListBucketResult", "<EnumerationResults"];

/// Why a response is not a list page.
#[derive(Debug, thiserror::Error)]
enum NoPage {
    #[error("what answers is no list of objects, it begins with {begin:?}")]
    Other { begin: String },
    #[error("a page of the list has more than {PAGE_BYTES_MAX} bytes")]
    TooLong,
}

/// Makes clients that validate pages of listings.
#[derive(Debug)]
pub(crate) struct Connector;

#[derive(Debug)]
struct Service(HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let value = |key| options.get_config_value(&key);
        let failed = |source: reqwest::Error| object_store::Error::Generic {
            store: "HTTP client",
            source: Box::new(source),
        };
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIME_MAX)
            .timeout(ANSWER_TIME_MAX)
            .https_only(value(ClientConfigKey::AllowHttp).as_deref() != Some("true"));
        if let Some(proxy) = value(ClientConfigKey::ProxyUrl) {
            client = client.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        Ok(HttpClient::new(Service(HttpClient::new(client.build().map_err(failed)?))))
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

    #[tokio::test]
    async fn a_redirect_is_an_answer() {
        use std::io::{Read as _, Write as _};
        let [bucket, other] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let url = format!("http://{}/b", bucket.local_addr().unwrap());
        let to = format!("http://localhost:{}/x", other.local_addr().unwrap().port());
        let answers = std::thread::spawn(move || {
            let mut connection = bucket.accept().unwrap().0;
            let _ = connection.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 307 x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            connection.write_all(head.as_bytes()).unwrap();
        });
        let client = Connector.connect(&ClientOptions::new().with_allow_http(true)).unwrap();
        let mut request = HttpRequest::new(Vec::new().into());
        *request.uri_mut() = url.parse().unwrap();
        other.set_nonblocking(true).unwrap();
        let status = client.execute(request).await.map(|answer| answer.status().as_u16());
        assert!(other.accept().is_err(), "another host is asked");
        assert_eq!(status.unwrap(), 307);
        answers.join().unwrap();
    }

    #[test]
    fn pages_differ_from_other_answers() {
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
