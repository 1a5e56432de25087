//! Rules, quotas and isolation of tenants, read again while the service runs.

use std::path::{Path, PathBuf};

use crate::{auth::Auth, check::ConfigError, config::Role, file::ConfigFile, quotas::Tenancy};

/// The file of a configuration, for what takes force without a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerSource {
    path: PathBuf,
    /// As read at the start.
    file: Box<ConfigFile>,
    role: Role,
    layers: Vec<String>,
}

impl CallerSource {
    pub(crate) fn of(file: &ConfigFile, role: Role, layers: &[&str]) -> Option<Self> {
        let layers = layers.iter().map(|&layer| layer.to_owned()).collect();
        Some(Self { path: file.path.clone()?, file: Box::new(file.clone()), role, layers })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `auth.rules`, `[quotas]` and `[tenants]` as the file has them now, with the rest as it was at the start;
    /// and whether that rest is as it was.
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
