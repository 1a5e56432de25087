//! Sends a transaction to a server: large cells by digest, with uploads of those it lacks.

use std::time::Duration;

use antares_client::{Blobs, Naming, by_digest_first, credentials::Connection, uploaded};
use antares_proto::v1::{
    self, runner_service_client::RunnerServiceClient, verify_transaction_request::Transaction,
};
use antares_transaction::Mock;
use bytes::Bytes;
use ckb_types::{
    packed::{Byte32, CellOutput},
    prelude::*,
};
use tonic::{Request as Call, Status};

use super::{ANSWER_BYTES_MAX, upload, uploads};

/// Minimum cell data to send by digest, bytes. Sending smaller data takes less time than a query.
const REFERENCE_BYTES_MIN: usize = 16 << 10;

/// Verifies the JSON transaction in `request`.
pub(super) async fn verify(
    channel: &Connection,
    request: v1::VerifyTransactionRequest,
    time: Duration,
) -> Result<v1::VerifyTransactionResponse, Status> {
    let mut blobs = Blobs::default();
    let fields = match &request.transaction {
        Some(Transaction::MockJson(json)) => fields(json),
        _ => None,
    };
    let fields = fields.map(|mut fields| {
        let deps = fields.cell_deps.iter_mut().filter_map(|dep| dep.cell.as_mut());
        blobs.take_from(fields.inputs.iter_mut().chain(deps), REFERENCE_BYTES_MIN);
        fields
    });
    let named = fields.filter(|_| !blobs.is_empty()).map(Transaction::Fields);
    let ask = |naming| {
        let message = match (&named, naming) {
            (Some(named), Naming::Digest) => {
                v1::VerifyTransactionRequest { transaction: Some(named.clone()), ..request.clone() }
            }
            _ => request.clone(),
        };
        let mut call = Call::new(message);
        call.set_timeout(time);
        let runner = RunnerServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        async move { runner.clone().verify_transaction(call).await.map(tonic::Response::into_inner) }
    };
    if named.is_none() {
        return ask(Naming::Inline).await;
    }
    by_digest_first(ask, async |status| uploaded(status, upload_lacking(channel, &blobs)).await).await
}

/// Uploads missing data. Sends it inline if uploads are not accepted.
async fn upload_lacking(channel: &Connection, blobs: &Blobs) -> Result<Naming, Status> {
    let send = |data: Bytes| async move { upload(channel.clone(), &data).await.map(|_| Naming::Digest) };
    let uploaded = blobs.upload_missing_blobs(|| uploads(channel.clone()), send).await;
    Ok(uploaded.unwrap_or(Naming::Inline))
}

/// The transaction in molecule encoding; none if it is malformed: the server then reports the error.
fn fields(json: &[u8]) -> Option<v1::TransactionFields> {
    let mock = Mock::from_json(json).ok()?;
    let mock = mock.as_ckb();
    let copied = Bytes::copy_from_slice;
    let cell = |output: &CellOutput, content: &Bytes, header: &Option<Byte32>| v1::CellFields {
        output: copied(output.as_slice()),
        data: content.clone(),
        block_hash: header.as_ref().map(|hash| copied(hash.as_slice())),
        data_sha256: None,
    };
    let info = &mock.mock_info;
    // No other form can express a header under an invented hash.
    if info.header_deps.iter().any(|header| header.hash() != header.data().calc_header_hash()) {
        return None;
    }
    let inputs = info.inputs.iter().map(|input| cell(&input.output, &input.data, &input.header)).collect();
    let cell_deps = info.cell_deps.iter().map(|dep| v1::CellDepFields {
        out_point: copied(dep.cell_dep.out_point().as_slice()),
        cell: Some(cell(&dep.output, &dep.data, &dep.header)),
    });
    Some(v1::TransactionFields {
        tx: copied(mock.tx.as_slice()),
        inputs,
        cell_deps: cell_deps.collect(),
        headers: info.header_deps.iter().map(|header| copied(header.data().as_slice())).collect(),
        extensions: info
            .extensions
            .iter()
            .map(|(hash, extension)| v1::BlockExtension {
                block_hash: copied(hash.as_slice()),
                extension: copied(extension),
            })
            .collect(),
    })
}
