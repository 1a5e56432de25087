//! Third-party neighbours of the services in a cluster: nginx in front of them, S3 servers behind them.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::server::until;

/// A recently free port, for programs that cannot choose one themselves.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A process; dropping it kills it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// nginx, which balances gRPC calls over some servers in turn.
pub(crate) struct Proxy {
    _process: Process,
    _folder: TempDir,
    pub(crate) address: String,
}

impl Proxy {
    /// None without nginx.
    pub(crate) fn start(servers: &[String]) -> Option<Self> {
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].map(PathBuf::from);
        let Some(program) = program.iter().find(|path| path.exists()) else {
            eprintln!("skipped: no nginx on this machine; calls go to the servers themselves");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", port());
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration(&address, servers, folder.path().to_str().unwrap())).unwrap();
        let process = start(Command::new(program).arg("-c").arg(&file).arg("-p").arg(folder.path()));
        until("nginx listens", || std::net::TcpStream::connect(&address).is_ok());
        Some(Self { _process: Process(process), _folder: folder, address })
    }
}

/// As in docs/operations.md: nginx would otherwise exclude a runner for ten seconds after one lost call.
fn configuration(address: &str, servers: &[String], folder: &str) -> String {
    let servers: String = servers.iter().map(|server| format!("server {server} max_fails=0;\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/errors;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off;\nclient_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\n\
         fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         upstream runners {{\n{servers}keepalive 8;\n}}\n\
         server {{\n\
         listen {address} http2;\nclient_max_body_size 0;\nhttp2_max_concurrent_streams 512;\n\
         location / {{ grpc_pass grpc://runners; grpc_read_timeout 300s; }}\n\
         }}\n}}\n"
    )
}

/// Implementation of the S3 server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Maker {
    /// moto, in Python.
    Moto,
    /// gofakes3, in Go.
    Gofakes3,
}

/// An S3 server with a bucket `antares`.
pub(crate) struct S3 {
    process: Process,
    address: String,
}

impl S3 {
    /// None if the server is unavailable: a package index may be down.
    pub(crate) fn start(maker: Maker) -> Option<Self> {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut tool = match maker {
            Maker::Moto => Command::new(format!("{folder}/scenarios/s3.sh")),
            Maker::Gofakes3 => {
                let mut tool = Command::new(format!("{folder}/../deploy/check/tools.sh"));
                tool.arg("gofakes3");
                tool
            }
        };
        let found = tool.output().unwrap();
        if !found.status.success() {
            let said = String::from_utf8_lossy(&found.stderr);
            eprintln!("skipped: no server of S3 ({maker:?}): {said}");
            return None;
        }
        let program = String::from_utf8(found.stdout).unwrap();
        let (mut command, port) = (Command::new(program.trim()), port());
        let address = format!("127.0.0.1:{port}");
        match maker {
            Maker::Moto => command.args(["-H", "127.0.0.1", "-p", &port.to_string()]),
            Maker::Gofakes3 => command.args(["-backend", "memory", "-host", &address]),
        };
        let server = Self { process: Process(start(&mut command)), address };
        until("the bucket is made", || server.make_bucket());
        Some(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    fn make_bucket(&self) -> bool {
        use std::io::{Read as _, Write as _};
        let mut answer = String::new();
        let asked = std::net::TcpStream::connect(&self.address).and_then(|mut stream| {
            let request =
                "PUT /antares HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        asked.is_ok() && answer.starts_with("HTTP/1.1 200")
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its address and credentials, as environment variables.
    pub(crate) fn environment(&self) -> String {
        Self::environment_at(&self.address)
    }

    /// The same for a server behind another address.
    pub(crate) fn environment_at(address: &str) -> String {
        format!(
            "AWS_ENDPOINT_URL=http://{}\nAWS_REGION=us-east-1\nAWS_ACCESS_KEY_ID=test\nAWS_SECRET_ACCESS_KEY=test\n",
            address
        )
    }
}
