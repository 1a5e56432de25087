//! A server of S3, or of its credentials, that says what a test wants.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// What a server says to a request, its lines and its body: a status and a body.
type Answer = dyn Fn(&str) -> (u16, String) + Send + Sync;

fn serve(connection: impl Read + Write, answer: &Answer) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            request += &line;
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        let is_head = request.starts_with("HEAD");
        let (status, text) = answer(&(request + &String::from_utf8_lossy(&body)));
        let begin = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {}\r\netag: \"x\"\r\nlast-modified: Thu, 26 Nov 2026 00:00:00 GMT\r\n\r\n",
            text.len()
        );
        let whole = format!("{begin}{}", if is_head { "" } else { &text });
        connection.get_mut().write_all(whole.as_bytes())?;
        connection.get_mut().flush()?;
    }
}

/// Port of a server that says what `answer` does over connections that `wrap` makes of those that come.
pub(crate) fn server_over<S: Read + Write>(
    wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answer, wrap): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(wrap));
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (answer, wrap) = (answer.clone(), wrap.clone());
            thread::spawn(move || serve(wrap(connection), &*answer));
        }
    });
    port
}

/// Address of a server that says what `answer` does.
pub(crate) fn server(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> String {
    format!("http://127.0.0.1:{}", server_over(|connection| connection, answer))
}

/// A refusal as S3 writes it.
pub(crate) fn code(code: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>")
}
