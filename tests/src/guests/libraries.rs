//! C libraries inside published crates that guests are built with: recipes only, their code stays where it is.

use std::path::PathBuf;

use anyhow::Result;

use crate::crates;

/// One library: what of it a guest compiles, and with which flags, here and natively.
#[derive(Debug)]
pub struct Library {
    parts: &'static [Part],
    flags: &'static [&'static str],
}

/// A folder inside a crate.
#[derive(Debug)]
struct Part {
    crate_name: &'static str,
    folder: &'static str,
    /// Folders of headers, relative to the folder.
    includes: &'static [&'static str],
    /// C files, relative to the folder.
    files: &'static [&'static str],
}

/// What a build takes from a library.
pub(super) struct Taken {
    pub(super) includes: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) flags: &'static [&'static str],
}

impl Library {
    /// No library.
    pub(super) const NONE: Self = Self { parts: &[], flags: &[] };

    /// Finds the library's files.
    ///
    /// # Errors
    ///
    /// Cargo does not find a crate.
    pub(super) fn take(&self) -> Result<Taken> {
        let mut taken = Taken { includes: Vec::new(), files: Vec::new(), flags: self.flags };
        for part in self.parts {
            // The one crate that the workspace's own lock file pins; the others stand apart.
            let find = if part.crate_name == "secp256k1-sys" { crates::of_workspace } else { crates::apart };
            let folder = find(part.crate_name)?.join(part.folder);
            taken.includes.extend(part.includes.iter().map(|include| folder.join(include)));
            taken.files.extend(part.files.iter().map(|file| folder.join(file)));
        }
        Ok(taken)
    }
}

const LIBSECP256K1: &[Part] = &[Part {
    crate_name: "secp256k1-sys",
    folder: "depend/secp256k1",
    includes: &["", "include", "src"],
    files: &["src/secp256k1.c", "src/precomputed_ecmult.c", "src/precomputed_ecmult_gen.c"],
}];

/// libsecp256k1 with small tables and no hand-written assembly.
pub(super) const SECP256K1: Library = Library {
    parts: LIBSECP256K1,
    flags: &["-DECMULT_WINDOW_SIZE=6", "-DECMULT_GEN_KB=2", "-DUSE_EXTERNAL_DEFAULT_CALLBACKS=1", "-w"],
};

/// The same with Schnorr signatures.
pub(super) const SCHNORR: Library = Library {
    parts: LIBSECP256K1,
    flags: &[
        "-DECMULT_WINDOW_SIZE=6",
        "-DECMULT_GEN_KB=2",
        "-DUSE_EXTERNAL_DEFAULT_CALLBACKS=1",
        "-DENABLE_MODULE_EXTRAKEYS=1",
        "-DENABLE_MODULE_SCHNORRSIG=1",
        "-w",
    ],
};

/// PQClean's Keccak.
pub(super) const KECCAK: Library = Library { parts: &[FIPS202], flags: &[] };

const FIPS202: Part = Part {
    crate_name: "pqcrypto-internals",
    folder: "",
    includes: &["include"],
    files: &["cfiles/fips202.c"],
};

const LIBMBEDTLS: &[Part] = &[Part {
    crate_name: "mbedtls-sys-auto",
    folder: "vendor",
    includes: &["include", "library"],
    files: &[
        "library/asn1parse.c",
        "library/asn1write.c",
        "library/bignum.c",
        "library/constant_time.c",
        "library/md.c",
        "library/memory_buffer_alloc.c",
        "library/oid.c",
        "library/platform.c",
        "library/platform_util.c",
        "library/rsa.c",
        "library/rsa_internal.c",
        "library/sha256.c",
    ],
}];

/// Mbed TLS for keys of 1024 bits.
pub(super) const RSA_1024: Library =
    Library { parts: LIBMBEDTLS, flags: &["-DMBEDTLS_CONFIG_FILE=\"guest_mbedtls.h\"", "-DRSA_BITS=1024"] };

/// Mbed TLS for keys of 2048 bits.
pub(super) const RSA_2048: Library =
    Library { parts: LIBMBEDTLS, flags: &["-DMBEDTLS_CONFIG_FILE=\"guest_mbedtls.h\"", "-DRSA_BITS=2048"] };
