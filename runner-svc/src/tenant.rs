//! The tenant of a call: authenticated where callers must authenticate, otherwise as the caller claims.

use std::sync::Arc;

use antares_config::TENANT_BYTES_MAX;
use antares_serve::{Account, CallContext, Fault, TENANT};
use tonic::Request;

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    /// The caller's account: its visibility and quotas.
    pub(crate) account: Account,
}

impl Default for Tenant {
    fn default() -> Self {
        Self { name: Arc::from(""), account: Account::nobody() }
    }
}

/// The tenant of `request`.
///
/// # Errors
/// The name is empty, too long, duplicate, or has characters other than letters, digits, `.`, `_` and `-`.
pub(crate) fn tenant<T>(request: &Request<T>) -> Result<Tenant, Fault> {
    let account = CallContext::of(request).account();
    let mut values = request.metadata().get_all(TENANT).iter();
    let Some(value) = values.next() else { return Ok(Tenant { account, ..Tenant::default() }) };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let name = value
        .to_str()
        .ok()
        .filter(|name| (1..=TENANT_BYTES_MAX).contains(&name.len()) && name.as_bytes().iter().all(is_plain));
    match (name, values.next()) {
        (Some(name), None) => Ok(Tenant { name: Arc::from(name), account }),
        _ => {
            let problem =
                format!("must be one name of 1 to {TENANT_BYTES_MAX} letters, digits, '.', '_' or '-'");
            Err(Fault::invalid("REQUEST_INVALID", format!("metadata {TENANT} {problem}"))
                .violation(format!("metadata.{TENANT}"), problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> Option<String> {
        let mut request = Request::new(());
        for value in values {
            request.metadata_mut().append(TENANT, value.parse().unwrap());
        }
        tenant(&request).ok().map(|tenant| tenant.name.to_string())
    }

    #[test]
    fn names_are_plain_and_short() {
        assert_eq!(of(&[]).as_deref(), Some(""));
        assert_eq!(of(&["team-7.A_b"]).as_deref(), Some("team-7.A_b"));
        let long: &'static str = "abcdefgh".repeat(9).leak();
        for bad in [&[""][..], &["a b"], &["a", "b"], &["a/b"], &[long], &[&long[..65]]] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
        assert!(of(&[&long[..64]]).is_some());
    }
}
