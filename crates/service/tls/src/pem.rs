//! Certificates, keys and authorities from PEM files.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::VerifierBuilderError,
};

/// The ALPN protocol of gRPC.
pub const ALPN: &[u8] = b"h2";

/// Maximum length of a file in bytes: a wrong path must not exhaust the memory.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why files cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// A file is invalid, and why.
    #[error("{0} {1}")]
    Invalid(PathBuf, String),
    /// Certificate and key do not match, or their kind is unsupported.
    #[error("{0} and {1} cannot be used together: {2}")]
    Pair(PathBuf, PathBuf, #[source] rustls::Error),
    /// The verifier of client certificates cannot be built.
    #[error("the authorities of clients cannot be used: {0}")]
    Clients(#[from] VerifierBuilderError),
    /// The library rejects the protocol versions and ciphers.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
    /// The system has no authorities installed.
    #[error("this system has no certificates of authorities; name a file of them")]
    NoSystemAuthorities,
}

/// Ciphers, curves and signatures: the library's defaults.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A certificate chain and its key.
///
/// # Errors
/// A file is invalid.
pub fn pair(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain: Vec<CertificateDer<'static>> = items(certificate, "certificate")?;
    let text = read(key)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Invalid(key.to_owned(), "has no private key in it".to_owned()),
        error => TlsError::Invalid(key.to_owned(), format!("is no PEM file: {error}")),
    })?;
    Ok((chain, key))
}

/// The authorities in `path`.
///
/// # Errors
/// The file is invalid.
pub fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in items(path, "certificate")? {
        roots.add(certificate).map_err(|error| {
            let problem = format!("has a certificate in it that cannot be an authority: {error}");
            TlsError::Invalid(path.to_owned(), problem)
        })?;
    }
    Ok(roots)
}

/// All items of a kind in `path`, at least one.
///
/// # Errors
/// The file is invalid.
pub fn items<T: PemObject>(path: &Path, what: &'static str) -> Result<Vec<T>, TlsError> {
    let text = read(path)?;
    let wrong = |problem| TlsError::Invalid(path.to_owned(), problem);
    let items: Result<Vec<T>, _> = T::pem_slice_iter(&text).collect();
    let items = items.map_err(|error| wrong(format!("is no PEM file: {error}")))?;
    if items.is_empty() { Err(wrong(format!("has no {what} in it"))) } else { Ok(items) }
}

/// The bytes of a small file.
///
/// # Errors
/// The file cannot be read, or is too large.
pub fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let error = |source| TlsError::Read(path.to_owned(), source);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(error)?;
    // The size of a special file is unknown.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(error(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(bytes)
}
