//! Certificates for tests: a certificate authority made with openssl, which issues, renews and revokes
//! certificates.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::crates::run;

/// Configuration of `openssl ca`, in the folder of the authority.
const CONFIGURATION: &str = "[ca]\ndefault_ca = own\n[own]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\n\
    certificate = ca.crt\nprivate_key = ca.key\ndefault_md = sha256\ndefault_days = 2\ndefault_crl_days = 2\n\
    policy = any\ncopy_extensions = copy\nunique_subject = no\ncrlnumber = crlnumber\n[any]\ncommonName = supplied\n";

/// A certificate authority in its own folder.
#[derive(Debug)]
pub struct Authority {
    folder: tempfile::TempDir,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// The key, PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// openssl is not installed.
    #[must_use]
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in
            [("ca.cnf", CONFIGURATION), ("index.txt", ""), ("serial", "1000\n"), ("crlnumber", "01\n")]
        {
            fs::write(folder.path().join(file), text).expect("written");
        }
        let subject = format!("/CN={name}");
        let ca = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout ca.key -out ca.crt -subj";
        openssl(folder.path(), ca, &[&subject]);
        Self { folder }
    }

    /// The authority's own certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A certificate for `names`, such as `DNS:localhost,URI:spiffe://domain/path`.
    #[must_use]
    #[track_caller]
    pub fn issue(&self, file: &str, names: &str) -> Pair {
        self.issue_for(file, names, "")
    }

    /// An expired certificate.
    #[must_use]
    #[track_caller]
    pub fn issue_expired(&self, file: &str, names: &str) -> Pair {
        self.issue_for(file, names, "-startdate 20200101000000Z -enddate 20200102000000Z")
    }

    /// A certificate that expires at `end`, such as `20991231235959Z`.
    #[must_use]
    #[track_caller]
    pub fn issue_until(&self, file: &str, names: &str, end: &str) -> Pair {
        self.issue_for(file, names, &format!("-enddate {end}"))
    }

    fn issue_for(&self, file: &str, names: &str, dates: &str) -> Pair {
        let (subject, names) = (format!("/CN={file}"), format!("subjectAltName={names}"));
        let request = format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {file}.key -out {file}.csr"
        );
        openssl(self.folder.path(), &request, &["-subj", &subject, "-addext", &names]);
        let sign = format!("ca -batch -notext -config ca.cnf -in {file}.csr -out {file}.crt {dates}");
        openssl(self.folder.path(), &sign, &[]);
        let path = |ending: &str| self.folder.path().join(format!("{file}.{ending}"));
        Pair { certificate: path("crt"), key: path("key") }
    }

    /// Replaces the revocation list by one of `pairs`; returns its file.
    #[must_use]
    #[track_caller]
    pub fn revoke(&self, pairs: &[&Pair]) -> PathBuf {
        for pair in pairs {
            let path = pair.certificate.to_str().expect("text");
            openssl(self.folder.path(), "ca -config ca.cnf -revoke", &[path]);
        }
        openssl(self.folder.path(), "ca -config ca.cnf -gencrl -out ca.crl", &[]);
        self.folder.path().join("ca.crl")
    }
}

/// A key pair for tokens on the curve P-256: PKCS #8, DER.
///
/// # Panics
/// openssl is not installed.
#[must_use]
#[track_caller]
pub fn token_key() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    openssl(folder.path(), "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out pem", &[]);
    openssl(folder.path(), "pkcs8 -topk8 -nocrypt -in pem -outform DER -out key", &[]);
    fs::read(folder.path().join("key")).expect("written")
}

#[track_caller]
fn openssl(folder: &Path, words: &str, more: &[&str]) {
    let mut command = Command::new("openssl");
    let made = run(command.args(words.split_whitespace()).args(more).current_dir(folder));
    made.expect("openssl is there and takes this");
}
