//! A way between two processes on which things go wrong: slow, narrow, silent, cut, or open in one direction
//! only.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Bytes that are handed on at once.
const PIECE_BYTES: usize = 4 << 10;

/// What happens on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Each piece comes so much later.
    Late(Duration),
    /// So many bytes a second.
    Narrow(u32),
    /// Nothing comes through, and nobody is told.
    Silent,
    /// Connections are reset, new ones at once.
    Cut,
    /// What is sent back ends; what is sent there still arrives.
    HalfClosed,
}

/// A listener before a server. What was connected through it is over when it is dropped.
pub(crate) struct Link {
    pub(crate) address: String,
    fault: watch::Sender<Fault>,
    listening: tokio::task::JoinHandle<()>,
}

impl Link {
    /// To the server at `address`.
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

    /// From now on, on connections that are there too.
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

/// Until one side ends, or the way does.
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
            // What has come waits; it arrives when the way is open again.
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
    // The other direction goes on.
    let _ = to.shutdown().await;
}
