//! The last moment of calls when the process stops: what has not ended by then ends with a status, while
//! there is time to send it.

use tokio::sync::watch;

/// Shared by all calls of a server.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    /// Ends all calls.
    pub(crate) fn end_calls(&self) {
        self.0.send_replace(true);
    }

    /// Until calls are ended.
    pub(crate) async fn ends(self) {
        // The sender is here.
        let _ = self.0.subscribe().wait_for(|ends| *ends).await;
    }
}
