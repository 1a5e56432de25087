//! A transaction on its way to a server: large cells go by digest, and are uploaded where they are missing.

use std::{collections::HashMap, time::Duration};

use antares_abi::Sha256Digest;
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    verify_transaction_request::Transaction,
};
use antares_transaction::Mock;
use bytes::Bytes;
use ckb_types::{
    packed::{Byte32, CellOutput},
    prelude::*,
};
use tonic::{Request as Call, Status};

use super::{ANSWER_BYTES_MAX, Link, inventory::call, upload::upload};
use crate::status::Problem;

/// Data of a cell from which on it goes by digest, bytes.
const REFERENCE_BYTES_MIN: usize = 16 << 10;

/// A transaction whose large cells are named by digest, and their data.
struct Named {
    fields: v1::TransactionFields,
    data: HashMap<String, Bytes>,
}

/// Has the transaction in `request`, which is JSON, verified.
pub(super) async fn verify(
    channel: &Link,
    request: v1::VerifyTransactionRequest,
    time: Duration,
) -> Result<v1::VerifyTransactionResponse, Status> {
    let ask = |request: v1::VerifyTransactionRequest| async {
        let mut call = Call::new(request);
        call.set_timeout(time);
        let runner = RunnerServiceClient::new(channel.clone());
        let answer = runner.max_decoding_message_size(ANSWER_BYTES_MAX).verify_transaction(call).await;
        answer.map(tonic::Response::into_inner)
    };
    let named = match &request.transaction {
        Some(Transaction::MockJson(json)) => named(json),
        _ => None,
    };
    let Some(Named { fields, data }) = named else { return ask(request).await };
    let by_digest = || v1::VerifyTransactionRequest {
        transaction: Some(Transaction::Fields(fields.clone())),
        ..request.clone()
    };
    match ask(by_digest()).await {
        Err(status) if Problem::of(&status) == Problem::ScriptNotFound => match bring(channel, &data).await {
            Ok(()) => ask(by_digest()).await,
            // Where no uploads are taken, it goes along.
            Err(_) => ask(request).await,
        },
        Err(status) if Problem::of(&status) == Problem::SourceUnavailable => ask(request).await,
        answer => answer,
    }
}

/// Uploads what is missing there.
async fn bring(channel: &Link, data: &HashMap<String, Bytes>) -> Result<(), Status> {
    let asked = call(v1::FindMissingRequest { script_sha256: data.keys().cloned().collect() });
    let missing = CompilerServiceClient::new(channel.clone()).find_missing(asked).await?.into_inner();
    for data in missing.missing_sha256.iter().filter_map(|digest| data.get(digest)) {
        upload(channel.clone(), data).await?;
    }
    Ok(())
}

/// The transaction with its large cells named; none if it has none, or is none: then the server says what is
/// wrong with it.
fn named(json: &[u8]) -> Option<Named> {
    let mock = Mock::from_json(json).ok()?;
    let mock = mock.as_ckb();
    let mut data = HashMap::new();
    let copied = Bytes::copy_from_slice;
    let mut cell = |output: &CellOutput, content: &Bytes, header: &Option<Byte32>| {
        let mut cell = v1::CellFields {
            output: copied(output.as_slice()),
            data: content.clone(),
            block_hash: header.as_ref().map(|hash| copied(hash.as_slice())),
            data_sha256: None,
        };
        if content.len() >= REFERENCE_BYTES_MIN {
            let digest = Sha256Digest::of(content).to_string();
            data.insert(digest.clone(), std::mem::take(&mut cell.data));
            cell.data_sha256 = Some(digest);
        }
        cell
    };
    let info = &mock.mock_info;
    let inputs = info.inputs.iter().map(|input| cell(&input.output, &input.data, &input.header)).collect();
    let cell_deps = info.cell_deps.iter().map(|dep| v1::CellDepFields {
        out_point: copied(dep.cell_dep.out_point().as_slice()),
        cell: Some(cell(&dep.output, &dep.data, &dep.header)),
    });
    let fields = v1::TransactionFields {
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
    };
    (!data.is_empty()).then_some(Named { fields, data })
}
