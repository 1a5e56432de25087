//! The output folder: inputs that reached new coverage, and findings.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use antares_abi::{Sha256Digest, Tier};
use antares_cli::{
    args::{CodeArgs, Content, DiagnosisArgs},
    failure::Failure,
    input::{self, verify_request},
    local::{diagnosis, engine},
    output,
};
use antares_fuzz::job::{FieldBytes, FuzzFinding};
use antares_transaction::{FieldName, Mock};
use anyhow::{Context as _, anyhow};
use serde::Serialize;

use super::target::Target;

/// The folder of inputs.
pub(crate) const CORPUS: &str = "corpus";
/// The folder of findings.
const FINDINGS: &str = "findings";
/// Maximum bytes of an input's file.
const INPUT_BYTES_MAX: u64 = 16 << 20;
/// Digits of a digest in a file name.
const DIGITS: usize = 16;

/// A finding on disk.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoredFinding {
    pub(crate) kind: String,
    pub(crate) what: String,
    /// The transaction, in the format of `antares verify --tx`.
    pub(crate) file: String,
    /// Bytes of all fields, after and before minimisation.
    pub(crate) bytes: u64,
    pub(crate) bytes_before: u64,
    /// The run of its process that found it.
    pub(crate) run: u64,
}

/// The folder.
pub(crate) struct Folder<'a> {
    root: &'a Path,
    target: &'a Target,
}

impl<'a> Folder<'a> {
    pub(crate) fn open(root: &'a Path, target: &'a Target) -> Result<Self, Failure> {
        for part in [CORPUS, FINDINGS] {
            let path = root.join(part);
            let made = fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()));
            made.map_err(Failure::Usage)?;
        }
        Ok(Self { root, target })
    }

    /// Inputs of earlier sessions, by name.
    pub(crate) fn seeds(&self) -> Result<Vec<FieldBytes>, Failure> {
        let folder = self.root.join(CORPUS);
        let read = fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = read.with_context(|| format!("cannot read {}", folder.display()));
        let mut paths: Vec<_> = entries.map_err(Failure::Usage)?.iter().map(fs::DirEntry::path).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        paths.sort_unstable();
        // One that is damaged does not keep the others from being gone on from.
        let reported =
            |failure: Failure| eprintln!("antares: left out: {}", output::printable(&failure.to_string()));
        Ok(paths.iter().filter_map(|path| self.seed(path).map_err(reported).ok()).collect())
    }

    fn seed(&self, path: &Path) -> Result<FieldBytes, Failure> {
        let refused = |why: String| Failure::Usage(anyhow!("{}: {why}", path.display()));
        let text = input::read(path, INPUT_BYTES_MAX)?;
        let held: BTreeMap<String, String> =
            serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        let bytes = |name: &FieldName| match held.get(&name.to_string()).map(|text| text.parse()) {
            // That session did not have this field.
            None => Ok(bytes::Bytes::new()),
            Some(Ok(Content::Bytes(bytes))) => Ok(bytes.into()),
            Some(_) => Err(refused(format!("{name} is no 0x and hexadecimal digits"))),
        };
        self.target.names.iter().map(bytes).collect()
    }

    /// Writes an input; returns whether it is new.
    pub(crate) fn keep(&self, fields: &FieldBytes) -> Result<bool, Failure> {
        let pairs = self.target.names.iter().zip(fields);
        let held: BTreeMap<_, _> =
            pairs.map(|(name, bytes)| (name.to_string(), format!("0x{}", hex::encode(bytes)))).collect();
        let text = serde_json::to_string_pretty(&held).unwrap_or_default() + "\n";
        let digest = Sha256Digest::of(text.as_bytes()).to_string();
        let path = self.root.join(CORPUS).join(format!("{}.json", &digest[..DIGITS]));
        if path.exists() {
            return Ok(false);
        }
        output::write(&path, text.as_bytes())?;
        Ok(true)
    }

    /// Writes a finding: the transaction, and a diagnosis of its scripts.
    pub(crate) fn keep_finding(&self, found: &FuzzFinding) -> Result<StoredFinding, Failure> {
        let target = self.target;
        let bytes = found.fields.iter().map(|bytes| &bytes[..]);
        let mock = target.mock.with_fields(target.names.iter().copied().zip(bytes));
        let json = mock.to_json();
        let name: String =
            found.kind.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
        let path = self.root.join(FINDINGS).join(format!("{}.json", name.trim_matches('-')));
        output::write(&path, &json)?;
        let reported = format!("{}\n{}\n{}", found.kind, found.what, explained(target, &mock, json)?);
        output::write(&path.with_extension("txt"), reported.as_bytes())?;
        Ok(StoredFinding {
            kind: found.kind.clone(),
            what: found.what.clone(),
            file: path.display().to_string(),
            bytes: found.fields.iter().map(|bytes| bytes.len() as u64).sum(),
            bytes_before: found.bytes_before,
            run: found.run,
        })
    }
}

/// The differences from the original transaction, and the diagnosis of failures.
fn explained(target: &Target, mock: &Mock, json: Vec<u8>) -> Result<String, Failure> {
    let mut text = String::new();
    for name in &target.names {
        let (before, now) = (target.mock.field(*name), mock.field(*name));
        if before != now {
            let [before, now] =
                [before, now].map(|bytes| format!("0x{}", hex::encode(bytes.unwrap_or_default())));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}: {now}\n  before: {before}");
        }
    }
    let request = verify_request::Request {
        json,
        environment: target.environment,
        group: target.group,
        tier: Tier::Interpreter,
        code: CodeArgs { full: false, no_cache: true },
        cycles_max: Some(target.cycles_max),
        ..verify_request::Request::default()
    };
    let verdict = engine::verify(&request)?;
    let args = DiagnosisArgs { explain: true, ..DiagnosisArgs::default() };
    let found = diagnosis::or_hint(diagnosis::of_verdict(&request, &verdict, &args), &args)?;
    Ok(text + &verdict.to_text() + &diagnosis::to_text(&found, verdict.vm_error(), &args))
}
