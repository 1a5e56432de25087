//! The configuration as written in the file.
//!
//! One file serves all binaries; a section that a role does not use is validated and otherwise ignored. Zero
//! never means "default", and an empty text disables a feature that is optional.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::{
    auth::{Auth, RawAdmin, RawAuth},
    check::{ConfigError, ConfigProblem},
    config::Role,
    listen::{RawListen, RawWeb},
    observability::{RawAudit, RawLog, RawMetrics, RawProfilePush, RawTrace},
    quotas::{RawQuotas, RawTenants, Tenancy},
    services::{RawCompiler, RawNode, RawRunner, RawSandbox},
    stores::{RawCache, RawShared, RawSigning},
    tls::RawTls,
};

/// A configuration as written, with defaults filled in. [`ConfigFile::check`] validates and interprets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    pub(crate) listen: RawListen,
    pub(crate) web: RawWeb,
    pub(crate) tls: RawTls,
    pub(crate) auth: RawAuth,
    pub(crate) admin: RawAdmin,
    pub(crate) quotas: RawQuotas,
    pub(crate) tenants: RawTenants,
    pub(crate) audit: RawAudit,
    pub(crate) metrics: RawMetrics,
    pub(crate) log: RawLog,
    pub(crate) trace: RawTrace,
    pub(crate) profile_push: RawProfilePush,
    pub(crate) sandbox: RawSandbox,
    pub(crate) cache: RawCache,
    pub(crate) shared: RawShared,
    pub(crate) signing: RawSigning,
    pub(crate) node: RawNode,
    pub(crate) compiler: RawCompiler,
    pub(crate) runner: RawRunner,
    /// Path of the file.
    #[serde(skip)]
    pub(crate) path: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads the TOML file `path`, or takes the defaults; `listen` and `data` of the command line override
    /// it.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has unknown keys (the error names all of them).
    pub fn read(
        path: Option<&Path>,
        listen: Option<SocketAddr>,
        data: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let mut file = match path {
            Some(path) => {
                let text = fs::read_to_string(path);
                let text = text.map_err(|source| ConfigError::Read(path.to_owned(), source))?;
                Self { path: Some(path.to_owned()), ..Self::parse(&text, path)? }
            }
            None => Self::default(),
        };
        if let Some(address) = listen {
            file.listen.address = address.to_string();
        }
        if let Some(dir) = data {
            file.cache.dir = dir.to_owned();
        }
        Ok(file)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let syntax = |source| ConfigError::Syntax(path.to_owned(), Box::new(source));
        let mut table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let is_renamed = rename(&mut table);
        let known = toml::Table::try_from(Self::default())?;
        let mut unknown = Vec::new();
        find_unknown(&table, &known, "", &mut unknown);
        if !unknown.is_empty() {
            return Err(ConfigError::Problems(unknown));
        }
        if is_renamed { table.try_into().map_err(syntax) } else { toml::from_str(text).map_err(syntax) }
    }

    /// Prints every key with its value as TOML, for `--print-config`.
    ///
    /// # Errors
    /// A path is not valid UTF-8.
    pub fn print(&self) -> Result<String, ConfigError> {
        Ok(toml::to_string(self)?)
    }

    /// The role that the file implies: a separate runner names its compiler's URL.
    pub fn role(&self) -> Role {
        if self.runner.compiler_url.is_empty() { Role::Both } else { Role::Runner }
    }

    /// URL of the object store shared by several servers; empty for none.
    pub fn shared_url(&self) -> &str {
        &self.shared.url
    }
}

impl FromStr for ConfigFile {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text, &PathBuf::from("-"))
    }
}

/// Removed keys that files may still contain, and their replacements.
const GONE: &str = include_str!("gone.txt");

/// The replacement of a removed key; `None` for a key that never existed.
fn gone(key: &str) -> Option<&'static str> {
    let mut groups = GONE.lines().filter_map(|line| line.split_once(": "));
    groups.find_map(|(keys, instead)| keys.split(' ').any(|gone| gone == key).then_some(instead))
}

/// Replaces keys under their former names, and returns whether there were any. A former key whose successor is
/// also set stays, and is refused as a removed key.
fn rename(table: &mut toml::Table) -> bool {
    let mut is_renamed = false;
    for (name, section) in table.iter_mut() {
        let Some(section) = section.as_table_mut() else { continue };
        let renamed =
            section.iter().filter_map(|(key, value)| Some((key.clone(), successor(name, key, value)?)));
        for (former, successor) in renamed.collect::<Vec<_>>() {
            if let Some((key, value)) = successor {
                if section.get(key).is_some_and(|value| !is_empty(value)) {
                    continue;
                }
                section.insert(key.to_owned(), value);
            }
            section.remove(&former);
            is_renamed = true;
        }
    }
    is_renamed
}

fn is_empty(value: &Value) -> bool {
    value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
}

/// The key and value that replace a renamed key, if its value is not the default. `None` for other keys.
#[expect(clippy::option_option, reason = "not renamed, or renamed and the default")]
fn successor(section: &str, key: &str, value: &Value) -> Option<Option<(&'static str, Value)>> {
    Some(match (section, key, value) {
        ("auth", "audience" | "jwks_uri", value) if is_empty(value) => None,
        ("auth", "audience", Value::String(_)) => Some(("audiences", Value::Array(vec![value.clone()]))),
        ("auth", "jwks_uri", Value::String(_)) => Some(("jwks", value.clone())),
        ("tenants", "salted", Value::Boolean(true)) => Some(("isolation", "code".into())),
        ("tenants", "shared", Value::Boolean(true)) => Some(("isolation", "none".into())),
        ("tenants", "salted" | "shared", Value::Boolean(false)) => None,
        ("runner", "reuse", Value::String(policy)) if policy == "per_execution" => {
            Some(("idle_workers_max", 0.into()))
        }
        ("runner", "reuse", Value::String(policy)) if policy == "per_artifact" => None,
        _ => return None,
    })
}

/// Collects every key of `table` that is not in `known`.
fn find_unknown(table: &toml::Table, known: &toml::Table, prefix: &str, unknown: &mut Vec<ConfigProblem>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match (value, known.get(name)) {
            (Value::Table(inner), Some(Value::Table(known))) => {
                find_unknown(inner, known, &format!("{key}."), unknown);
            }
            (_, Some(_)) => {}
            (_, None) => {
                let near: BTreeSet<&str> = known.keys().map(String::as_str).collect();
                let near = near.into_iter().collect::<Vec<_>>().join(", ");
                let problem = match gone(&key) {
                    Some(instead) => format!("left in 0.1.0: {instead}"),
                    None => format!("no such key; there are {near}"),
                };
                unknown.push(ConfigProblem { key, problem });
            }
        }
    }
}

// Rules, quotas and isolation of tenants, reloaded at run time.

/// The file of a configuration, for settings that take effect without a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerSource {
    path: PathBuf,
    /// As of the start.
    file: Box<ConfigFile>,
    role: Role,
    layers: Vec<String>,
}

impl CallerSource {
    pub(crate) fn of(file: &ConfigFile, role: Role, layers: &[&str]) -> Option<Self> {
        let layers = layers.iter().map(|&layer| layer.to_owned()).collect();
        Some(Self { path: file.path.clone()?, file: Box::new(file.clone()), role, layers })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Current `auth.rules`, `[quotas]` and `[tenants]` of the file, with the other settings of the start;
    /// and whether those are unchanged.
    ///
    /// # Errors
    /// As at the start.
    pub fn read(&self) -> Result<(Auth, Tenancy, bool), ConfigError> {
        let mut new = ConfigFile::read(Some(&self.path), None, None)?;
        let mut file = self.file.clone();
        (file.auth.rules, file.quotas) = (new.auth.rules.clone(), new.quotas.clone());
        file.tenants = new.tenants.clone();
        // The command line may override these.
        new.listen.address.clone_from(&file.listen.address);
        new.cache.dir.clone_from(&file.cache.dir);
        let layers: Vec<_> = self.layers.iter().map(String::as_str).collect();
        let config = file.check(self.role, &layers)?;
        Ok((config.auth, config.tenancy, new == *file))
    }
}
