//! C libraries in published crates that guests use: only the recipes; the code stays in the crates.

use std::path::PathBuf;

use anyhow::Result;

use crate::crates;

/// A library: the files that guests and twins compile, and their flags.
#[derive(Debug)]
pub struct Library {
    parts: &'static [Part],
    flags: &'static [&'static str],
    /// Flags for guests only.
    guest_flags: &'static [&'static str],
}

#[derive(Debug)]
struct Part {
    crate_name: &'static str,
    folder: &'static str,
    /// Folders of headers, relative to the folder.
    includes: &'static [&'static str],
    /// C files, relative to the folder, without the ending.
    files: &'static [&'static str],
}

/// Resolved inputs from a library.
pub(super) struct Taken {
    pub(super) includes: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    pub(super) flags: &'static [&'static str],
    pub(super) guest_flags: &'static [&'static str],
}

impl Library {
    pub(super) const NONE: Self = Self { parts: &[], flags: &[], guest_flags: &[] };

    /// Finds the library's files.
    ///
    /// # Errors
    /// Cargo does not find a crate.
    pub(super) fn take(&self) -> Result<Taken> {
        let Self { flags, guest_flags, .. } = *self;
        let mut taken = Taken { includes: Vec::new(), files: Vec::new(), flags, guest_flags };
        for part in self.parts {
            // The only crate pinned by the workspace's own lock file.
            let find = if part.crate_name == "secp256k1-sys" { crates::of_workspace } else { crates::apart };
            let folder = find(part.crate_name)?.join(part.folder);
            taken.includes.extend(part.includes.iter().map(|include| folder.join(include)));
            taken.files.extend(part.files.iter().map(|file| folder.join(file).with_extension("c")));
        }
        Ok(taken)
    }
}

const LIBSECP256K1: &[Part] = &[Part {
    crate_name: "secp256k1-sys",
    folder: "depend/secp256k1",
    includes: &["", "include", "src"],
    files: &["src/secp256k1", "src/precomputed_ecmult", "src/precomputed_ecmult_gen"],
}];

/// libsecp256k1 with small tables and no hand-written assembly.
pub(super) const SECP256K1: Library = Library {
    parts: LIBSECP256K1,
    flags: &["-DECMULT_WINDOW_SIZE=6", "-DECMULT_GEN_KB=2", "-DUSE_EXTERNAL_DEFAULT_CALLBACKS=1", "-w"],
    ..Library::NONE
};

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
    ..Library::NONE
};

pub(super) const KECCAK: Library = Library { parts: &[FIPS202], ..Library::NONE };

const FIPS202: Part =
    Part { crate_name: "pqcrypto-internals", folder: "", includes: &["include"], files: &["cfiles/fips202"] };

const LIBMBEDTLS: &[Part] = &[Part {
    crate_name: "mbedtls-sys-auto",
    folder: "vendor",
    includes: &["include", "library"],
    files: &[
        "library/asn1parse",
        "library/asn1write",
        "library/bignum",
        "library/constant_time",
        "library/md",
        "library/memory_buffer_alloc",
        "library/oid",
        "library/platform",
        "library/platform_util",
        "library/rsa",
        "library/rsa_internal",
        "library/sha256",
    ],
}];

const RSA: Library = Library { parts: LIBMBEDTLS, ..Library::NONE };
const RSA_CONFIG: &str = "-DMBEDTLS_CONFIG_FILE=\"guest_mbedtls.h\"";

pub(super) const RSA_1024: Library = Library { flags: &[RSA_CONFIG, "-DRSA_BITS=1024"], ..RSA };

/// Mbed TLS for keys of 1024 bits, with limbs of 64 bits.
pub(super) const RSA_1024_LIMBS_64: Library =
    Library { flags: &[RSA_CONFIG, "-DRSA_BITS=1024", "-DRSA_LIMBS_64"], ..RSA };

pub(super) const RSA_2048: Library = Library { flags: &[RSA_CONFIG, "-DRSA_BITS=2048"], ..RSA };

/// BLAKE2's reference implementation.
pub(super) const BLAKE2B: Library = Library {
    parts: &[Part {
        crate_name: "blake2b-rs",
        folder: "BLAKE2/ref",
        includes: &[""],
        files: &["blake2b-ref"],
    }],
    flags: &["-DNATIVE_LITTLE_ENDIAN"],
    ..Library::NONE
};

pub(super) const ML_DSA: Library = Library {
    parts: &[
        FIPS202,
        Part {
            crate_name: "pqcrypto-mldsa",
            folder: "pqclean/crypto_sign/ml-dsa-44/clean",
            includes: &[""],
            files: &["ntt", "packing", "poly", "polyvec", "reduce", "rounding", "sign", "symmetric-shake"],
        },
    ],
    ..Library::NONE
};

/// PQClean's SPHINCS+-SHAKE-128f.
pub(super) const SPHINCS: Library = Library {
    parts: &[
        FIPS202,
        Part {
            crate_name: "pqcrypto-sphincsplus",
            folder: "pqclean/crypto_sign/sphincs-shake-128f-simple/clean",
            includes: &["", "../../../common"],
            files: &[
                "address",
                "context_shake",
                "fors",
                "hash_shake",
                "merkle",
                "sign",
                "thash_shake_simple",
                "utils",
                "utilsx1",
                "wots",
                "wotsx1",
            ],
        },
    ],
    // Its compatibility header requires glibc; these are the parts that the code uses.
    flags: &["-DPQCLEAN_COMMON_COMPAT_H", "-DPQCLEAN_VLA(type,name,size)=type name[size]"],
    ..Library::NONE
};

/// LZ4 without static memory.
pub(super) const LZ4: Library = Library {
    parts: &[Part { crate_name: "lz4-sys", folder: "liblz4/lib", includes: &[""], files: &["lz4"] }],
    flags: &["-DLZ4_STATIC_LINKING_ONLY_DISABLE_MEMORY_ALLOCATION"],
    ..Library::NONE
};

/// LZ4 for a machine with fast unaligned accesses, like ckb-vm. By default gcc assumes slow ones for RISC-V,
/// and copies byte by byte.
pub(super) const LZ4_UNALIGNED: Library =
    Library { guest_flags: &["-mtune=thead-c906", "-mno-strict-align"], ..LZ4 };

/// blst's portable C with limbs of 64 bits on both sides. By default it uses these only on 64-bit ARM, and
/// assembly elsewhere.
pub(super) const BLST: Library = Library {
    parts: &[Part { crate_name: "blst", folder: "blst", includes: &["bindings"], files: &["src/server"] }],
    flags: &[
        "-D__BLST_NO_ASM__",
        "-D__BLST_NO_CPUID__",
        "-D__BLST_PORTABLE__",
        "-D__aarch64__",
        "-Dllimb_t=__uint128_t",
        "-w",
    ],
    ..Library::NONE
};

/// Lua 5.4 without the libraries that need files.
pub(super) const LUA: Library = Library {
    parts: &[Part {
        crate_name: "lua-src",
        folder: "lua-5.4.9",
        includes: &[""],
        files: &[
            "lapi", "lauxlib", "lcode", "lctype", "ldebug", "ldo", "ldump", "lfunc", "lgc", "llex", "lmem",
            "lobject", "lopcodes", "lparser", "lstate", "lstring", "lstrlib", "ltable", "ltablib", "ltm",
            "lundump", "lvm", "lzio",
        ],
    }],
    // No clock, so that hashes and sorting are reproducible.
    flags: &["-Dluai_makeseed(state)=7u", "-Dl_randomizePivot()=0u"],
    ..Library::NONE
};
