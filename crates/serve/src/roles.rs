//! Which call needs which role. A call without a row is nobody's.

use std::fmt;

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerRole {
    /// Store scripts, and ask which are stored.
    Upload,
    /// Compile, and fetch scripts and native code.
    Compile,
    /// Run scripts and verify transactions.
    Execute,
    /// Read profiles.
    Profile,
    /// Administer the services.
    Admin,
    /// Read how much work there is, of all tenants together: autoscalers.
    Scale,
}

impl CallerRole {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Upload, Self::Compile, Self::Execute, Self::Profile, Self::Admin, Self::Scale];

    /// As the configuration has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Compile => "compile",
            Self::Execute => "execute",
            Self::Profile => "profile",
            Self::Admin => "admin",
            Self::Scale => "scale",
        }
    }

    /// The role of this name.
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
pub(crate) struct Roles(u8);

impl Roles {
    /// Every role there is.
    pub(crate) fn all() -> Self {
        CallerRole::ALL.into_iter().collect()
    }

    /// Whether `role` is in it.
    pub(crate) fn has(self, role: CallerRole) -> bool {
        self.0 & 1 << role as u8 != 0
    }
}

impl FromIterator<CallerRole> for Roles {
    fn from_iter<I: IntoIterator<Item = CallerRole>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | 1 << role as u8))
    }
}

/// What a call needs where callers are asked who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: probes.
    Nothing,
    /// To be known.
    Known,
    /// A role.
    Role(CallerRole),
    /// More than anybody has: no row says what.
    Never,
}

/// What a call of `method` needs, such as `antares.v1.RunnerService/Execute`.
#[must_use]
pub fn need(method: &str) -> Need {
    let Some((service, call)) = method.split_once('/') else { return Need::Known };
    match (service, call) {
        ("grpc.health.v1.Health", _) => Need::Nothing,
        ("grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection", _) => {
            Need::Known
        }
        ("antares.v1.CompilerService", "Upload" | "QueryUpload" | "FindMissing") => {
            Need::Role(CallerRole::Upload)
        }
        (
            "antares.v1.CompilerService",
            "Compile" | "ExplainArtifact" | "GetArtifact" | "GetScript" | "Learn",
        ) => Need::Role(CallerRole::Compile),
        (
            "antares.v1.OperationService",
            "StartCompile" | "GetOperation" | "WaitOperation" | "CancelOperation" | "ListOperations",
        ) => Need::Role(CallerRole::Compile),
        ("antares.v1.StoreService", "ListStored" | "RemoveStored" | "PinStored")
        | ("antares.v1.AdminService", "Drain" | "Revoke" | "SetLogFilter") => Need::Role(CallerRole::Admin),
        ("antares.v1.CompilerService" | "antares.v1.RunnerService", "GetCapabilities")
        // Everybody may ask for its own.
        | ("antares.v1.UsageService", "ListUsage") => Need::Known,
        ("externalscaler.ExternalScaler", "IsActive" | "StreamIsActive" | "GetMetricSpec" | "GetMetrics") => {
            Need::Role(CallerRole::Scale)
        }
        (
            "antares.v1.RunnerService",
            "Execute" | "ExecuteBatch" | "ExecuteSession" | "VerifyTransaction" | "VerifyBatch"
            | "VerifySession",
        ) => Need::Role(CallerRole::Execute),
        (
            "antares.v1.ProfileService",
            "ListProfiles" | "GetProfile" | "TopFunctions" | "GetCallGraph" | "DiffProfiles" | "GetInsights",
        ) => Need::Role(CallerRole::Profile),
        _ => Need::Never,
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
        assert_eq!(need("antares.v1.CompilerService/DropEverything"), Need::Never);
        // What is no method of ours is answered UNIMPLEMENTED, to those who are known.
        assert_eq!(need("_OTHER"), Need::Known);
    }
}
