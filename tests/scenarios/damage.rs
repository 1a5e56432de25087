//! Input that is damaged or too large: a clear error with its place, bounded memory, nothing else disturbed.

use std::{fs, path::Path};

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, CacheUse, Tier, get_artifact_response, upload_request::Part};
use antares_tests::guests;
use bytes::Bytes;
use tonic::Code;

use crate::{
    client::{Client, exit_code, inline, reason, serving, stored},
    server::Server,
};

/// Memory that the server's own process may have had, whatever it was sent, bytes.
const MEMORY_MAX: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_the_store_is_found_and_compiled_over() {
    let elf = guests::bytes("fib-imc").unwrap();
    let (data, server, mut client) = serving("").await;
    client.upload(&elf).await.unwrap();
    let before = client.execute(stored(&elf, &["10"], Tier::Native)).await.unwrap();
    let library = artifact(&mut client, &before.artifact.as_ref().unwrap().key).await;
    drop(client);
    assert_eq!(server.stop(), Some(0));
    let damaged = damage(&Server::store(&data), &library);
    assert!(damaged > 0, "the library stands nowhere in the store");

    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let after = client.execute(inline(&elf, &["10"], Tier::Native)).await.unwrap();
    assert_eq!(after.verdict, before.verdict);
    assert_eq!(after.artifact.unwrap().cache(), CacheUse::Miss, "a damaged artifact is never used");
    let again = client.execute(inline(&elf, &["10"], Tier::Native)).await.unwrap();
    assert_eq!((again.verdict, again.artifact.unwrap().cache()), (before.verdict, CacheUse::Hit));
}

/// The bytes of an artifact.
async fn artifact(client: &mut Client, key: &str) -> Vec<u8> {
    let request = v1::GetArtifactRequest { artifact_key: key.to_owned() };
    let mut stream = client.compiler.get_artifact(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        if let Some(get_artifact_response::Part::Chunk(chunk)) = message.part {
            bytes.extend(chunk);
        }
    }
    bytes
}

/// Flips a bit of every place under `folder` where a part of `library` stands that stands nowhere else.
fn damage(folder: &Path, library: &[u8]) -> usize {
    let needle = library.windows(48).find(|window| window.iter().filter(|byte| **byte != 0).count() > 40);
    let needle = needle.expect("the library has code");
    let mut damaged = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            damaged += damage(&path, library);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let found: Vec<usize> = bytes
            .windows(needle.len())
            .enumerate()
            .filter(|(_, at)| *at == needle)
            .map(|(at, _)| at)
            .collect();
        for at in &found {
            bytes[at + 20] ^= 1;
        }
        if !found.is_empty() {
            fs::write(&path, bytes).unwrap();
        }
        damaged += found.len();
    }
    damaged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_elf_says_so() {
    let (_data, _server, mut client) = serving("").await;
    let elf = guests::bytes("exit-imc").unwrap();
    for length in [0, 1, 40, 64, 100, elf.len() / 2] {
        let status = client.execute(inline(&elf[..length], &[], Tier::Native)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{length} bytes: {status}");
        assert!(["SCRIPT_INVALID", "REQUEST_INVALID"].contains(&reason(&status).as_str()), "{status}");
        assert!(!status.message().is_empty());
    }
    assert_eq!(exit_code(&client.execute(inline(&elf, &["3"], Tier::Native)).await.unwrap()), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_is_refused_without_being_read() {
    let (_data, server, mut client) = serving("").await;
    let digest = Sha256Digest::of(b"").to_string();
    // Once as it is, once under a header that says less.
    for (size_bytes, expected) in [(1 << 30, "SCRIPT_TOO_LARGE"), (1000, "SIZE_MISMATCH")] {
        let header =
            Part::Header(v1::BlobHeader { sha256: digest.clone(), size_bytes, ..Default::default() });
        let chunk = Bytes::from(vec![7; 64 << 10]);
        let chunks = (0..(1 << 30) / (64 << 10)).map(move |_| Part::Chunk(chunk.clone()));
        let parts = [header].into_iter().chain(chunks).map(|part| v1::UploadRequest { part: Some(part) });
        let status = client.compiler.upload(tokio_stream::iter(parts)).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, expected), "{status}");
    }
    assert!(server.memory_high() < MEMORY_MAX, "{} bytes", server.memory_high());
    let elf = guests::bytes("exit-imc").unwrap();
    assert_eq!(exit_code(&client.execute(inline(&elf, &["3"], Tier::Native)).await.unwrap()), Some(3));
}
