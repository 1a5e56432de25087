//! The two kinds of sessions: inputs of one script, and transactions that share cells.

use std::time::Instant;

use antares_proto::v1::{
    self, execute_session_request, execute_session_response, shared_transaction_result,
    verify_session_request, verify_session_response,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    blobs::{Blobs, cells_of},
    call::Link,
    naming::{Naming, Script},
    session::{Kind, Reply},
    status::of_error,
    upload_script::{REFERENCE_BYTES_MIN, upload_data, upload_script},
};

/// Runs of one script.
pub(crate) struct Runs {
    pub(crate) script: Script,
    pub(crate) start: v1::SessionStart,
    pub(crate) naming: Naming,
}

/// Verifications of transactions.
pub(crate) struct Verifications {
    shared: v1::VerifyShared,
    blobs: Blobs,
    naming: Naming,
}

impl Verifications {
    pub(crate) fn new(mut shared: v1::VerifyShared) -> Self {
        let mut blobs = Blobs::default();
        blobs.take_from(cells_of(&mut shared.cell_deps), REFERENCE_BYTES_MIN);
        Self { shared, blobs, naming: Naming::Digest }
    }
}

impl Kind for Runs {
    type Item = v1::SessionInput;
    type Request = v1::ExecuteSessionRequest;
    type Response = v1::ExecuteSessionResponse;
    type Result = v1::BatchResult;
    const IN_ORDER: bool = true;

    fn id(item: &Self::Item) -> u64 {
        item.id
    }

    fn start(&self) -> Self::Request {
        let options = self.start.script.as_ref().and_then(|script| script.options.clone());
        let script = Some(self.script.message(self.naming, options));
        let start = v1::SessionStart { script, ..self.start.clone() };
        v1::ExecuteSessionRequest { message: Some(execute_session_request::Message::Start(start)) }
    }

    fn request(item: Self::Item) -> Self::Request {
        v1::ExecuteSessionRequest { message: Some(execute_session_request::Message::Input(item)) }
    }

    async fn open(
        link: &Link,
        requests: ReceiverStream<Self::Request>,
    ) -> Result<Streaming<Self::Response>, Status> {
        let opened = link.runner().execute_session(link.request(requests)).await;
        Ok(opened?.into_inner())
    }

    fn read(response: Self::Response) -> Reply<Self::Result> {
        use execute_session_response::Message;
        match response.message {
            Some(Message::Started(_)) => Reply::Started,
            Some(Message::Result(v1::SessionResult { id, result: Some(result) })) => {
                Reply::Answer { id, result }
            }
            _ => Reply::Unexpected,
        }
    }

    fn error(_: &Self::Result) -> Option<Status> {
        None
    }

    async fn uploaded(&mut self, link: &Link, status: &Status, began: Instant) -> Result<bool, Status> {
        let uploaded = upload_script(link, &self.script, status, began).await;
        renamed(&mut self.naming, uploaded)
    }
}

impl Kind for Verifications {
    type Item = v1::SharedTransaction;
    type Request = v1::VerifySessionRequest;
    type Response = v1::VerifySessionResponse;
    type Result = Result<v1::VerifyTransactionResponse, v1::OperationError>;
    const IN_ORDER: bool = false;

    fn id(item: &Self::Item) -> u64 {
        item.id
    }

    fn start(&self) -> Self::Request {
        let mut shared = self.shared.clone();
        if self.naming == Naming::Inline {
            self.blobs.put_into(&mut shared.cell_deps);
        }
        v1::VerifySessionRequest { message: Some(verify_session_request::Message::Start(shared)) }
    }

    fn request(item: Self::Item) -> Self::Request {
        v1::VerifySessionRequest { message: Some(verify_session_request::Message::Transaction(item)) }
    }

    async fn open(
        link: &Link,
        requests: ReceiverStream<Self::Request>,
    ) -> Result<Streaming<Self::Response>, Status> {
        let opened = link.runner().verify_session(link.request(requests)).await;
        Ok(opened?.into_inner())
    }

    fn read(response: Self::Response) -> Reply<Self::Result> {
        use shared_transaction_result::Result as Outcome;
        use verify_session_response::Message;
        match response.message {
            Some(Message::Started(_)) => Reply::Started,
            Some(Message::Result(v1::SharedTransactionResult { id, result: Some(result) })) => {
                let result = match result {
                    Outcome::Response(response) => Ok(response),
                    Outcome::Error(error) => Err(error),
                };
                Reply::Answer { id, result }
            }
            _ => Reply::Unexpected,
        }
    }

    fn error(result: &Self::Result) -> Option<Status> {
        result.as_ref().err().map(of_error)
    }

    async fn uploaded(&mut self, link: &Link, status: &Status, began: Instant) -> Result<bool, Status> {
        let uploaded = upload_data(link, &self.blobs, status, began).await;
        renamed(&mut self.naming, uploaded)
    }
}

/// Handles an upload: returns whether the server now has what it lacked, and updates its naming.
fn renamed(naming: &mut Naming, uploaded: Option<Result<Naming, Status>>) -> Result<bool, Status> {
    match uploaded {
        // Inline data cannot be missing.
        Some(_) if *naming == Naming::Inline => Ok(false),
        Some(now) => {
            *naming = now?;
            Ok(true)
        }
        None => Ok(false),
    }
}
