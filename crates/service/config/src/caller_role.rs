//! Roles of callers.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
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

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// The set of all roles.
    #[must_use]
    pub fn all() -> Self {
        CallerRole::VARIANTS.iter().copied().collect()
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
        for role in CallerRole::VARIANTS.iter().copied() {
            assert_eq!(role.to_string().parse(), Ok(role));
            let set: Roles = [role].into_iter().collect();
            assert!(CallerRole::VARIANTS.iter().all(|other| set.has(*other) == (*other == role)));
            assert!(Roles::all().has(role) && !Roles::default().has(role));
        }
        assert!("root".parse::<CallerRole>().is_err());
    }
}
