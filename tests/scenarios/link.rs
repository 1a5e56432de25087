//! A link between two processes with faults: slow, narrow, silent, cut, or half closed.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Bytes forwarded at once.
const PIECE_BYTES: usize = 4 << 10;

/// The fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None.
    None,
    /// Delays each piece by this time.
    Late(Duration),
    /// Limits bytes per second.
    Narrow(u32),
    /// Forwards nothing, without notice.
    Silent,
    /// Resets connections, new ones at once.
    Cut,
    /// Closes the way back; data to the server still arrives.
    HalfClosed,
}

/// A listener in front of a server. Dropping it closes its connections.
pub(crate) struct Link {
    pub(crate) address: String,
    fault: watch::Sender<Fault>,
    listening: tokio::task::JoinHandle<()>,
}

impl Link {
    /// A link to the server at `address`.
    pub(crate) async fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let (fault, faults) = watch::channel(Fault::None);
        let server = address.to_owned();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server.clone(), faults.clone()));
            }
        });
        Self { address: own, fault, listening }
    }

    /// Applies from now on, also to existing connections.
    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
        self.fault.send_replace(Fault::Cut);
    }
}

async fn connect(client: TcpStream, server: String, faults: watch::Receiver<Fault>) {
    if *faults.borrow() == Fault::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = faults.clone();
    tokio::select! {
        _ = cut.wait_for(|fault| *fault == Fault::Cut) => {}
        () = async {
            tokio::join!(
                hand_on(from_client, to_server, faults.clone(), false),
                hand_on(from_server, to_client, faults.clone(), true),
            );
        } => {}
    }
}

/// Until one side or the link ends.
async fn hand_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut faults: watch::Receiver<Fault>,
    is_back: bool,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let fault = *faults.borrow_and_update();
        match fault {
            Fault::Late(time) => tokio::time::sleep(time).await,
            Fault::Narrow(rate) => {
                tokio::time::sleep(Duration::from_secs(1) * u32::try_from(length).unwrap() / rate).await;
            }
            // Received data waits until the link works again.
            Fault::Silent => {
                let _ = faults.wait_for(|fault| *fault != Fault::Silent).await;
            }
            Fault::HalfClosed if is_back => break,
            Fault::None | Fault::Cut | Fault::HalfClosed => {}
        }
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
    // The other direction stays open.
    let _ = to.shutdown().await;
}
