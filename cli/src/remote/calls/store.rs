//! Operations on a server's store: ls --stored, rm, pin, unpin.

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, StoredKind, store_service_client::StoreServiceClient};

use super::{Server, inventory::call};
use crate::{failure::Failure, output::server_json::StoredEntry, remote::status::is_not_found};

fn kind(is_artifact: bool) -> i32 {
    if is_artifact { StoredKind::Artifact.into() } else { StoredKind::Script.into() }
}

impl Server {
    /// All entries of a kind, by key.
    pub(crate) fn list_stored(&self, artifacts: bool) -> Result<Vec<StoredEntry>, Failure> {
        self.request(async |channel| {
            let mut client = StoreServiceClient::new(channel);
            let (mut entries, mut page_token) = (Vec::new(), String::new());
            loop {
                let kind = kind(artifacts);
                let asked = call(v1::ListStoredRequest { kind, page_token, ..Default::default() });
                let page = client.list_stored(asked).await?.into_inner();
                entries.extend(page.entries.into_iter().map(|entry| {
                    let v1::StoredEntry { key, size_bytes, pinned, used } = entry;
                    StoredEntry { key, size_bytes, pinned, used }
                }));
                page_token = page.next_page_token;
                if page_token.is_empty() {
                    return Ok(entries);
                }
            }
        })
    }

    /// Removes a script and its artifacts, or an artifact. Returns the number of removed entries.
    pub(crate) fn remove_stored(&self, artifact: bool, key: Sha256Digest) -> Result<u32, Failure> {
        self.request(async |channel| {
            let asked = call(v1::RemoveStoredRequest { kind: kind(artifact), key: key.to_string() });
            Ok(StoreServiceClient::new(channel).remove_stored(asked).await?.into_inner().removed)
        })
    }

    /// Pins or unpins an entry; returns whether it is stored.
    pub(crate) fn pin_stored(
        &self,
        artifact: bool,
        key: Sha256Digest,
        pinned: bool,
    ) -> Result<bool, Failure> {
        self.request(async |channel| {
            let asked = call(v1::PinStoredRequest { kind: kind(artifact), key: key.to_string(), pinned });
            match StoreServiceClient::new(channel).pin_stored(asked).await {
                Ok(_) => Ok(true),
                Err(status) if is_not_found(&status) => Ok(false),
                Err(status) => Err(status),
            }
        })
    }
}
