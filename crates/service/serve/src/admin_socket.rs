//! The socket for administrators: a file that only one user may open, whose peers the kernel identifies. No
//! proxy leads there, and it has its own capacity when everything else is full.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixStream as Probe,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use antares_config::Listen;
use http::Request;
use rustix::process::geteuid;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    time::sleep,
};

use crate::{
    authenticator::ByAdminSocket,
    connections::Connections,
    layers::around::Rest,
    listener::Connection,
    peer::Peer,
    server::ServeError,
    transport::{Protocol, builder_of, serve_calls},
};

/// Concurrent connections: of operators and their scripts.
pub(crate) const CONNECTIONS_MAX: usize = 16;

/// How long accepting pauses when the system is out of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Permissions of a folder that let others replace files in it: write, without the sticky bit.
const SHARED_BITS: u32 = 0o022;
const STICKY_BIT: u32 = 0o1000;

/// The bound socket; dropping it removes its file.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Binds `path`. Call it within the runtime.
    ///
    /// # Errors
    /// Its folder is missing or writable by others, another file is there, or a process serves it.
    pub(crate) fn bind(path: &Path) -> Result<Self, ServeError> {
        let error = |source| ServeError::Socket(path.to_owned(), source);
        check_folder(path).and_then(|()| remove_stale(path)).map_err(error)?;
        let listener = UnixListener::bind(path).map_err(error)?;
        // Independent of the umask.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(error)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// The next connection of this user or of root.
    async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if is_trusted(peer.uid()) => return stream,
                    Ok(peer) => tracing::warn!(uid = peer.uid(), "another user at admin.socket"),
                    Err(error) => tracing::warn!(%error, "somebody without a name at admin.socket"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection to admin.socket was not accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // The next process replaces a leftover file.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// A user who can write to the folder could replace the socket.
fn check_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = fs::metadata(folder)?;
    let is_open = found.mode() & SHARED_BITS != 0 && found.mode() & STICKY_BIT == 0;
    if is_trusted(found.uid()) && !is_open {
        return Ok(());
    }
    let problem = format!("others may write to its folder {}", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Removes the socket of a process that has ended, and nothing else.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() || !is_trusted(found.uid()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else is there"));
    }
    match Probe::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "a process serves it")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Serves calls on `socket` with clones of `service` until `closing`.
pub(crate) async fn serve(
    socket: AdminSocket,
    listen: Listen,
    connections: Arc<Connections>,
    service: impl Rest,
    closing: watch::Receiver<bool>,
) {
    let builder = builder_of(&listen, Protocol::Grpc);
    let listen = Arc::new(listen);
    let mut stop = closing.clone();
    loop {
        let stream = tokio::select! {
            stream = socket.accept() => stream,
            _ = stop.wait_for(|closing| *closing) => break,
        };
        // All connections share one peer, whose idle ones yield to new ones.
        let Some(place) = connections.admit(Peer::UNKNOWN) else { continue };
        let (builder, service) = (builder.clone(), service.clone());
        let (listen, closing) = (listen.clone(), closing.clone());
        tokio::spawn(async move {
            let mark = |request: &mut Request<_>| {
                request.extensions_mut().insert(ByAdminSocket);
            };
            let stream = Connection::with_preface(stream, listen.keepalive_timeout);
            serve_calls(stream, &builder, &listen, place, service, mark, closing).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    }

    #[tokio::test]
    async fn a_file_of_its_own_in_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let first = AdminSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // A serving process keeps it.
        assert!(AdminSocket::bind(&path).unwrap_err().to_string().contains("a process serves it"));
        drop(first);
        assert!(!path.exists());
        // The socket of a killed process is replaced; any other file is not.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(AdminSocket::bind(&path).unwrap());
        fs::write(&path, "precious").unwrap();
        assert!(AdminSocket::bind(&path).unwrap_err().to_string().contains("something else"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        mode(folder.path(), 0o777);
        assert!(AdminSocket::bind(&path).unwrap_err().to_string().contains("others may write"));
        // Like the folder of temporary files.
        mode(folder.path(), 0o1777);
        drop(AdminSocket::bind(&path).unwrap());
    }
}
