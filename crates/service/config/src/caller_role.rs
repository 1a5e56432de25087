//! Roles of callers.

use std::fmt;

/// A role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerRole {
    /// Store scripts, and query which are stored.
    Upload,
    /// Compile, and fetch scripts and native code.
    Compile,
    /// Run scripts and verify transactions.
    Execute,
    /// Read profiles.
    Profile,
    /// Administer the services.
    Admin,
}

impl CallerRole {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Upload, Self::Compile, Self::Execute, Self::Profile, Self::Admin];

    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Compile => "compile",
            Self::Execute => "execute",
            Self::Profile => "profile",
            Self::Admin => "admin",
        }
    }

    /// The role with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for CallerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// The set of all roles.
    #[must_use]
    pub fn all() -> Self {
        CallerRole::ALL.into_iter().collect()
    }

    /// Whether the set contains `role`.
    #[must_use]
    pub fn has(self, role: CallerRole) -> bool {
        self.0 & 1 << role as u8 != 0
    }
}

impl FromIterator<CallerRole> for Roles {
    fn from_iter<I: IntoIterator<Item = CallerRole>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | 1 << role as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets() {
        for role in CallerRole::ALL {
            assert_eq!(CallerRole::named(role.name()), Some(role));
            let set: Roles = [role].into_iter().collect();
            assert!(CallerRole::ALL.into_iter().all(|other| set.has(other) == (other == role)));
            assert!(Roles::all().has(role) && !Roles::default().has(role));
        }
        assert_eq!(CallerRole::named("root"), None);
    }
}
