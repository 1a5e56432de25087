//! Roles that calls need. A call without a row is forbidden to all.

use antares_config::CallerRole;

/// Need of a call where callers must authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: probes.
    Nothing,
    /// Authentication.
    Known,
    /// A role.
    Role(CallerRole),
    /// Forbidden: it has no row.
    Never,
}

/// The need of `method`, such as `antares.v1.RunnerService/Execute`.
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
        ("antares.v1.CompilerService" | "antares.v1.RunnerService", "GetCapabilities") => Need::Known,
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
    fn calls_without_a_row_are_nobody_s() {
        assert_eq!(need("antares.v1.CompilerService/DropEverything"), Need::Never);
        // Unknown methods return UNIMPLEMENTED, to authenticated callers.
        assert_eq!(need("_OTHER"), Need::Known);
    }
}
