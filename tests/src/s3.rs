//! An S3 server in this process: one with scripted responses, or buckets whose objects are files.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    thread,
};

/// An HTTP request.
#[derive(Debug)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

/// An HTTP response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    /// Additional headers, each with its line break.
    pub headers: String,
    pub body: Vec<u8>,
    /// The connection closes before the last byte.
    pub is_cut: bool,
}

impl From<(u16, String)> for Response {
    fn from((status, body): (u16, String)) -> Self {
        Self { status, body: body.into_bytes(), ..Self::default() }
    }
}

impl Request {
    /// The path and the query of the request line.
    #[must_use]
    pub fn target(&self) -> (&str, &str) {
        let target = self.head.split(' ').nth(1).unwrap_or_default();
        target.split_once('?').unwrap_or((target, ""))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.target();
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find_map(|(key, value)| (key == name).then(|| value.replace("%2F", "/").replace("%2f", "/")))
    }
}

type Answer = dyn Fn(&Request) -> Response + Send + Sync;

fn serve(connection: impl Read + Write, answer: &Answer) -> io::Result<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        let is_head = head.starts_with("HEAD");
        let Response { status, headers, body, is_cut } = answer(&Request { head, body });
        let begin = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {}\r\netag: \"x\"\r\nlast-modified: Thu, 26 Nov 2026 00:00:00 GMT\r\n{headers}\r\n",
            body.len() + if is_cut { 1 } else { 0 }
        );
        connection.get_mut().write_all(begin.as_bytes())?;
        if !is_head {
            connection.get_mut().write_all(&body)?;
        }
        connection.get_mut().flush()?;
        if is_cut {
            return Ok(());
        }
    }
}

/// Starts a server with the responses of `answer`; `wrap` wraps each connection. Returns its port.
///
/// # Panics
/// No port is available.
pub fn server_over<S: Read + Write, R: Into<Response>>(
    wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    answer: impl Fn(&Request) -> R + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (answer, wrap): (Arc<Answer>, _) = (Arc::new(move |request| answer(request).into()), Arc::new(wrap));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (answer, wrap) = (answer.clone(), wrap.clone());
            thread::spawn(move || serve(wrap(connection), &*answer));
        }
    });
    port
}

/// Starts a server with the responses of `answer`; returns its URL.
pub fn server<R: Into<Response>>(answer: impl Fn(&Request) -> R + Send + Sync + 'static) -> String {
    format!("http://127.0.0.1:{}", server_over(|connection| connection, answer))
}

/// An error response in S3's format.
#[must_use]
pub fn code(code: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>")
}

/// Buckets of this process: the folder of each.
#[derive(Debug, Default)]
struct Buckets {
    folders: Mutex<HashMap<String, PathBuf>>,
    /// Parts of incomplete objects, by upload.
    uploads: Mutex<HashMap<String, Vec<u8>>>,
}

static BUCKETS: LazyLock<(Arc<Buckets>, String)> = LazyLock::new(|| {
    let buckets = Arc::new(Buckets::default());
    let served = buckets.clone();
    (buckets, server(move |request| served.answer(request)))
});

/// URL of the server with the buckets of this process.
#[must_use]
pub fn endpoint() -> &'static str {
    &BUCKETS.1
}

/// Environment variables that direct a client to this server.
#[must_use]
pub fn environment() -> [(&'static str, &'static str); 4] {
    [
        ("AWS_ENDPOINT_URL", endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ]
}

/// Creates a bucket whose objects are the files below `folder`, which is created; returns its name.
///
/// # Panics
/// The folder cannot be created.
#[must_use]
pub fn bucket(folder: &Path) -> String {
    fs::create_dir_all(folder).expect("a folder");
    let mut folders = BUCKETS.0.folders.lock().unwrap_or_else(PoisonError::into_inner);
    let known = folders.iter().find_map(|(name, known)| (known == folder).then(|| name.clone()));
    known.unwrap_or_else(|| {
        let name = format!("bucket-{}", folders.len());
        folders.insert(name.clone(), folder.to_owned());
        name
    })
}

/// Creates such a bucket; returns its URL.
#[must_use]
pub fn url(folder: &Path) -> String {
    format!("s3://{}", bucket(folder))
}

impl Buckets {
    fn answer(&self, request: &Request) -> Response {
        let (path, _) = request.target();
        let (name, key) = path.trim_start_matches('/').split_once('/').unwrap_or((&path[1..], ""));
        let folder = self.folders.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
            return (404, code("NoSuchBucket")).into();
        };
        let method = request.head.split(' ').next().unwrap_or_default();
        let done = match method {
            "GET" if request.parameter("list-type").is_some() => list(&folder, request),
            "GET" | "HEAD" => {
                fs::read(folder.join(key)).map(|body| Response { status: 200, body, ..Response::default() })
            }
            "PUT" => self.put(&folder.join(key), request),
            "POST" => self.complete(&folder.join(key), key, request),
            "DELETE" => fs::remove_file(folder.join(key)).map(|()| (204, String::new()).into()),
            _ => return (405, code("MethodNotAllowed")).into(),
        };
        done.unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::NotFound if method == "DELETE" => (204, String::new()).into(),
            io::ErrorKind::NotFound => (404, code("NoSuchKey")).into(),
            _ => (500, code("InternalError")).into(),
        })
    }

    fn put(&self, path: &Path, request: &Request) -> io::Result<Response> {
        if let Some(upload) = request.parameter("uploadId") {
            let part = request.parameter("partNumber").unwrap_or_default();
            let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
            uploads.insert(format!("{upload} {part:0>5}"), request.body.clone());
        } else {
            write(path, &request.body)?;
        }
        Ok((200, String::new()).into())
    }

    /// Starts or completes a multipart upload.
    fn complete(&self, path: &Path, key: &str, request: &Request) -> io::Result<Response> {
        let Some(upload) = request.parameter("uploadId") else {
            let upload = key.replace('/', "-");
            let text = format!(
                "<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            );
            return Ok((200, text).into());
        };
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts: Vec<_> =
            uploads.extract_if(|name, _| name.split(' ').next() == Some(&*upload)).collect();
        drop(uploads);
        parts.sort();
        write(path, &parts.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>())?;
        let text = "<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>";
        Ok((200, text.to_owned()).into())
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.persist(path)?;
    Ok(())
}

fn list(folder: &Path, request: &Request) -> io::Result<Response> {
    let (prefix, mut objects) = (request.parameter("prefix").unwrap_or_default(), String::new());
    let mut pending = vec![folder.join(&prefix)];
    while let Some(folder_now) = pending.pop().filter(|path| path.exists()) {
        for entry in fs::read_dir(folder_now)? {
            let (entry, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
            let metadata = entry?;
            if metadata.is_dir() {
                pending.push(path);
            } else if let Ok(key) = path.strip_prefix(folder) {
                objects += &format!(
                    "<Contents><Key>{}</Key><Size>{}</Size><LastModified>2026-11-26T00:00:00Z</LastModified><ETag>\"x\"</ETag></Contents>",
                    key.display(),
                    metadata.len()
                );
            }
        }
    }
    Ok((200, format!("<ListBucketResult>{objects}</ListBucketResult>")).into())
}
