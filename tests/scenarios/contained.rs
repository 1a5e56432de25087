//! A faulty generator: its library is signed and stored like any other, but without address checks. The run
//! ends as a violation, loudly, and the script is interpreted from then on.
#![allow(clippy::cast_possible_truncation, reason = "addresses of a small library, on 64 bits")]

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_cache::{Cache, CacheConfig, Put, Space};
use antares_proto::v1::{Outcome, Tier};
use antares_tests::{guests, native::code_of};
use antares_trust::{Facts, Keyring, Manifest};
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use crate::{
    client::{Client, serving, stored},
    failing::with_failing_workers,
    server::Server,
};

/// One compile per script, so that its generator is known.
pub(crate) const SECTIONS: &str = "[compiler]\nbaseline = false\n";

/// Loads from an address far beyond memory: its argument's, times a million.
const STRAY: &str = ".globl _start\n_start:\n ld a0, 8(sp)\n slli a0, a0, 20\n ld a1, 0(a0)\n andi a0, a1, 1\n li a7, 93\n ecall\n";

/// Exit code of the script below.
const RIGHT: u32 = 77;

/// Exits with a constant: errors in it do not leave guest memory.
pub(crate) const CONSTANT: &str = ".globl _start\n_start:\n li a0, 77\n li a7, 93\n ecall\n";

/// Bytes of an entry after the library: the manifest, its length, and the trailer.
fn manifest_bytes(entry: &[u8]) -> usize {
    let at = entry.len() - 8;
    8 + u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize
}

/// Replaces each conditional branch to the trap of a failed check by no-ops. Returns their number.
fn leave_checks_out(library: &mut [u8]) -> usize {
    let code = code_of(library);
    let decoder = Decoder::with_ip(64, &library[code.clone()], code.start as u64, DecoderOptions::NONE);
    let branches: Vec<_> = decoder
        .into_iter()
        .filter(|branch| branch.op0_kind() == OpKind::NearBranch64)
        .filter(|branch| !matches!(branch.mnemonic(), Mnemonic::Jmp | Mnemonic::Call))
        // The trap with the number of a bad address.
        .filter(|branch| library[branch.near_branch64() as usize..].starts_with(&[0x67, 0x0f, 0xb9, 0x40, 6]))
        .collect();
    for branch in &branches {
        library[branch.ip() as usize..][..branch.len()].fill(0x90);
    }
    branches.len()
}

/// Replaces a constant in the code. Returns the number of replacements.
pub(crate) fn mistake_a_constant(library: &mut [u8]) -> usize {
    let (right, wrong) = (RIGHT.to_le_bytes(), (RIGHT + 1).to_le_bytes());
    let places: Vec<_> = code_of(library).filter(|at| library[*at..].starts_with(&right)).collect();
    for at in &places {
        library[*at..at + 4].copy_from_slice(&wrong);
    }
    places.len()
}

/// Changes the stored library of `elf` with `change`, signed with the service's own key.
pub(crate) fn spoil(data: &tempfile::TempDir, elf: &[u8], change: impl FnOnce(&mut [u8]) -> usize) {
    spoil_claiming(data, elf, change, |_| {});
}

/// The same, with a manifest changed by `claim`. Returns the digest of the library.
pub(crate) fn spoil_claiming(
    data: &tempfile::TempDir,
    elf: &[u8],
    change: impl FnOnce(&mut [u8]) -> usize,
    claim: impl FnOnce(&mut Manifest),
) -> Sha256Digest {
    let script = Sha256Digest::of(elf);
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    let key = Sha256Digest::for_artifact(script, options, CodeTier::Full);
    let cache = Cache::open(CacheConfig::new(Server::store(data), 1 << 30)).unwrap();
    let entry = cache.get(Space::Artifact, key.0).unwrap();
    let mut library = entry[..entry.len() - manifest_bytes(&entry)].to_vec();
    assert!(change(&mut library) > 0);
    let facts = Facts { key, script, digest: Sha256Digest::of(&library), length: library.len() as u64 };
    let keyring = Keyring::open(&Server::keys(data)).unwrap();
    let signed = keyring.sign(&facts, u64::from(u32::MAX)).unwrap();
    let mut claimed = Manifest::claimed(&signed).unwrap();
    claim(&mut claimed);
    let manifest = keyring.sign_manifest(claimed).unwrap();
    let length = u32::try_from(manifest.len()).unwrap().to_le_bytes();
    let spoilt = [&library[..], &manifest[..], &length[..], &entry[entry.len() - 4..]].concat();
    assert!(cache.remove(Space::Artifact, key.0));
    assert_eq!(cache.put(Space::Artifact, key.0, &spoilt).unwrap(), Put::Stored);
    facts.digest
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_were_left_out_cost_one_run() {
    let elf = guests::assemble(STRAY).unwrap();
    let (data, server, client) = serving(SECTIONS).await;
    client.upload(&elf).await.unwrap();
    let right = client.execute(stored(&elf, &["x"], Tier::Auto)).await.unwrap();
    let verdict = right.verdict.unwrap();
    assert_eq!((verdict.outcome(), right.fallback.as_str()), (Outcome::Error, ""));
    server.stop();
    spoil(&data, &elf, leave_checks_out);
    let server = Server::start_with(&data, SECTIONS);
    let client = Client::connect(&server).await;
    let wrong = client.execute(stored(&elf, &["x"], Tier::Auto)).await.unwrap();
    assert_eq!(wrong.verdict.unwrap().outcome(), Outcome::SandboxViolation);
    assert_eq!(server.metric("antares_wild_faults_total{role=\"run\"}"), 1.0);
    assert_eq!(server.metric("antares_sandbox_violations_total{role=\"run\"}"), 1.0);
    assert_eq!(server.metric("antares_artifacts_quarantined"), 1.0);
    // From then on, the result is correct but slower.
    let again = client.execute(stored(&elf, &["x"], Tier::Auto)).await.unwrap();
    assert_eq!((again.verdict.unwrap(), again.fallback.as_str()), (verdict, "quarantined"));
    assert!(client.execute(stored(&elf, &["x"], Tier::Native)).await.is_err());
    assert_eq!(server.metric("antares_wild_faults_total{role=\"run\"}"), 1.0);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_optimiser_only_claims_is_compiled_without_it() {
    let (data, _workers) = with_failing_workers();
    let server = Server::start_with(&data, SECTIONS);
    let client = Client::connect(&server).await;
    let elf = [&guests::assemble(STRAY).unwrap()[..], b"proved"].concat();
    client.upload(&elf).await.unwrap();
    // The native tier still works, with the check of the stray address.
    let native = client.execute(stored(&elf, &["x"], Tier::Native)).await.unwrap();
    let interpreted = client.execute(stored(&elf, &["x"], Tier::Interpreter)).await.unwrap();
    assert_eq!(native.verdict.as_ref().unwrap().outcome(), Outcome::Error);
    assert_eq!(native.verdict, interpreted.verdict);
    assert_eq!(server.metric("antares_compile_unproved_total"), 1.0);
    assert_eq!(server.metric("antares_wild_faults_total{role=\"run\"}"), 0.0);
    server.stop();
}
