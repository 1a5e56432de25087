//! The configuration as it is written.
//!
//! One file serves all binaries; a section that a role does not use is checked and otherwise ignored. Zero
//! never means "default", and an empty text switches the thing off where that is possible.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{
    admin::RawAdmin,
    audit::RawAudit,
    auth::RawAuth,
    cache::RawCache,
    compiler::RawCompiler,
    config_error::{ConfigError, Mistake},
    listen::RawListen,
    log::RawLog,
    metrics::RawMetrics,
    node::RawNode,
    profile_push::RawProfilePush,
    quotas::{RawQuotas, RawTenants},
    role::Role,
    runner::RawRunner,
    sandbox::RawSandbox,
    shared_tier::RawShared,
    signing::RawSigning,
    tls::RawTls,
    trace::RawTrace,
    web::RawWeb,
};

/// A configuration as written, defaults filled in. [`ConfigFile::check`] gives what it means.
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
}

impl ConfigFile {
    /// Reads the TOML file `path`, or takes the defaults, and puts the command line's `listen` and `data`
    /// over it.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has keys that do not exist (all of them are named).
    pub fn read(
        path: Option<&Path>,
        listen: Option<SocketAddr>,
        data: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let mut file = match path {
            Some(path) => {
                let text = fs::read_to_string(path);
                let text = text.map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
                Self::parse(&text, path)?
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
        let syntax = |source| ConfigError::Syntax { path: path.to_owned(), source: Box::new(source) };
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let known = toml::Table::try_from(Self::default())?;
        let mut unknown = Vec::new();
        find_unknown(&table, &known, "", &mut unknown);
        if !unknown.is_empty() {
            return Err(ConfigError::Mistakes(unknown));
        }
        toml::from_str(text).map_err(syntax)
    }

    /// As TOML, every key with its value: what `--print-config` shows.
    ///
    /// # Errors
    /// A path is not text.
    pub fn print(&self) -> Result<String, ConfigError> {
        Ok(toml::to_string(self)?)
    }

    /// Which services it can be for: a runner by itself says where its compiler is.
    #[must_use]
    pub fn role(&self) -> Role {
        if self.runner.compiler_url.is_empty() { Role::Both } else { Role::Runner }
    }

    /// The object store that several servers share; empty for none.
    #[must_use]
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

/// Keys that files may still have, and what holds in their place.
const GONE: &str = include_str!("gone.txt");

/// What holds in place of the key, if there was one.
fn gone(key: &str) -> Option<&'static str> {
    let mut groups = GONE.lines().filter_map(|line| line.split_once(": "));
    groups.find_map(|(keys, instead)| keys.split(' ').any(|gone| gone == key).then_some(instead))
}

/// Names every key of `table` that `known` does not have.
fn find_unknown(table: &toml::Table, known: &toml::Table, prefix: &str, unknown: &mut Vec<Mistake>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match (value, known.get(name)) {
            (toml::Value::Table(inner), Some(toml::Value::Table(known))) => {
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
                unknown.push(Mistake { key, problem });
            }
        }
    }
}
