//! Landlock with nothing allowed: no file, no TCP port, no abstract socket, no signal to the outside.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

use crate::{Layer, LayerStatus};

/// `LANDLOCK_CREATE_RULESET_VERSION` of the kernel's `landlock.h`: queries the ABI version instead of
/// creating a rule set.
const VERSION_QUERY: libc::c_uint = 1;

/// Puts the calling process into a new Landlock domain. Open files stay usable. Memory files can still be
/// opened through `/proc/self/fd`: Landlock ignores kernel-internal file systems.
///
/// It requests everything that both this kernel's Landlock and the library support. The layer is active only
/// if all of it is enforced.
pub(crate) fn restrict() -> LayerStatus {
    let abi = match kernel_abi() {
        Ok(abi) => abi,
        Err(why) => return status(false, why),
    };
    match restrict_self(abi) {
        Ok(enforced) => judge(abi, enforced),
        Err(error) => status(false, error.to_string()),
    }
}

fn status(active: bool, detail: impl Into<String>) -> LayerStatus {
    LayerStatus { layer: Layer::Landlock, active, detail: detail.into() }
}

/// The ABI version of this kernel, or why it has none.
fn kernel_abi() -> Result<ABI, &'static str> {
    // SAFETY: with this flag the kernel reads no memory and creates nothing.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION_QUERY)
    };
    match i32::try_from(answer) {
        Ok(version) if version > 0 => Ok(ABI::from(version)),
        _ => Err(match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EOPNOTSUPP) => "not enabled when the kernel was booted",
            Some(libc::ENOSYS) => "not in this kernel, or a filter hides it",
            _ => "refused, as by the filter of a container",
        }),
    }
}

fn restrict_self(abi: ABI) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let (network, scope) = (AccessNet::from_all(abi), Scope::from_all(abi));
    if !network.is_empty() {
        rules = rules.handle_access(network)?;
    }
    if !scope.is_empty() {
        rules = rules.scope(scope)?;
    }
    Ok(rules.create()?.restrict_self()?.ruleset)
}

/// The status for a kernel with `abi`, given the library's verdict `enforced`.
fn judge(abi: ABI, enforced: RulesetStatus) -> LayerStatus {
    let number = abi as i32;
    let lacks = match abi {
        _ if Scope::from_all(abi).is_empty() && AccessNet::from_all(abi).is_empty() => {
            ", which has no TCP ports, abstract sockets and signals"
        }
        _ if Scope::from_all(abi).is_empty() => ", which has no abstract sockets and signals",
        _ => "",
    };
    match enforced {
        RulesetStatus::FullyEnforced => status(true, format!("ABI {number}{lacks}")),
        RulesetStatus::PartiallyEnforced => status(false, format!("ABI {number}, enforced in part")),
        RulesetStatus::NotEnforced => status(false, format!("ABI {number}, not enforced")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_stands_only_as_a_whole() {
        let stands = |enforced| judge(ABI::V7, enforced).active;
        assert!(stands(RulesetStatus::FullyEnforced));
        assert!(!stands(RulesetStatus::PartiallyEnforced));
        assert!(!stands(RulesetStatus::NotEnforced));
    }

    #[test]
    fn what_an_old_kernel_lacks_is_named() {
        let detail = |abi| judge(abi, RulesetStatus::FullyEnforced).detail;
        assert_eq!(detail(ABI::V2), "ABI 2, which has no TCP ports, abstract sockets and signals");
        assert_eq!(detail(ABI::V5), "ABI 5, which has no abstract sockets and signals");
        assert_eq!(detail(ABI::V7), "ABI 7");
    }
}
