//! Identifies callers and their tenants, and checks their permissions. Refuses nobody: later layers first
//! trace, count and log how a stranger's call ends.

use std::sync::Arc;

use antares_config::CallerRole;
use http::Request;
use tonic::body::Body;
use tower::service_fn;

use super::{
    around::{Answering, Check, Rest},
    context::{CallContext, Proven},
};
use crate::{
    account::Accounts,
    authenticator::{Authenticator, ByAdminSocket, Caller, ClientNames},
    roles::{Need, need},
    status::Fault,
};

/// Metadata with the authenticated name of a runner's caller, when the runner proxies its call. It counts
/// only from callers that may act for all tenants, and restricts the call to its own tenant.
pub const CALLER: &str = "antares-caller";

#[derive(Clone, Debug)]
pub(crate) struct Authenticate {
    pub(super) authenticator: Arc<Authenticator>,
    accounts: Arc<Accounts>,
    /// Whether peers on the loopback network are operators.
    loopback_operators: bool,
}

impl Authenticate {
    pub(crate) fn new(
        authenticator: Authenticator,
        accounts: Arc<Accounts>,
        loopback_operators: bool,
    ) -> Self {
        Self { authenticator: Arc::new(authenticator), accounts, loopback_operators }
    }

    /// Waits for a token's key that the issuer has just begun to use.
    pub(crate) fn keys_first<R>(&self, mut rest: R) -> impl Rest<Future = Answering> + use<R>
    where
        R: Rest<Future = Answering>,
    {
        let authenticator = self.authenticator.clone();
        service_fn(move |request: Request<Body>| {
            let Some(fetch) = authenticator.fetch_for(request.headers()) else { return rest.call(request) };
            let mut rest = rest.clone();
            let answering: Answering = Box::pin(async move {
                fetch.await;
                rest.call(request).await
            });
            answering
        })
    }
}

impl Check for Authenticate {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let method = CallContext::in_request(request).method.clone();
        let is_by_socket = request.extensions().get::<ByAdminSocket>().is_some();
        let is_enough = matches!(need(&method), Need::Role(CallerRole::Admin) | Need::Known);
        let vouched = request.headers_mut().remove(CALLER);
        let mut caller = if is_by_socket && is_enough {
            Ok(Some(Caller::by_socket()))
        } else {
            let names = request.extensions().get::<ClientNames>().cloned();
            self.authenticator.pass(&method, names.as_ref(), request.headers_mut())
        };
        // A stranger's claimed tenant is ignored: its refusals are charged to no tenant.
        if let Err(stopped) = &caller {
            stopped.name_tenant(request.headers_mut());
        }
        // A proxied call is the named caller's, who may not act for all tenants.
        if let (Ok(Some(caller)), Some(name)) = (&mut caller, vouched)
            && caller.any_tenant
        {
            (caller.who, caller.any_tenant) = (String::from_utf8_lossy(name.as_bytes()).into(), false);
        }
        let known = caller.as_ref().ok().and_then(Option::as_ref);
        let proven = Proven {
            role: is_by_socket || self.authenticator.is_on(),
            admin: is_by_socket || known.is_some_and(Caller::is_admin),
            any_tenant: known.is_some_and(|caller| caller.any_tenant),
            loopback: self.loopback_operators,
        };
        let account = self.accounts.of(CallContext::in_request(request).peer, request.headers());
        let context = CallContext::in_request(request);
        (context.caller, context.proven, context.account) = (caller, proven, Some(account));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use antares_config::{ConfigFile, Role};

    use super::*;
    use crate::{metrics::Metrics, peer::Peer};

    fn context(method: &str, is_by_socket: bool) -> CallContext {
        let config = ConfigFile::default().check(Role::Both, &[]).unwrap();
        let metrics = Metrics::new();
        let authenticator = Authenticator::new(&config.auth, &metrics).unwrap();
        let layer =
            Authenticate::new(authenticator, Arc::new(Accounts::new(&config.tenancy, &metrics)), true);
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(CallContext::new(Arc::from(method), false, Peer::UNKNOWN));
        if is_by_socket {
            request.extensions_mut().insert(ByAdminSocket);
        }
        layer.check(&mut request).unwrap();
        CallContext::in_request(&mut request).clone()
    }

    #[test]
    fn the_socket_proves_the_role_and_nobody_is_asked_by_default() {
        let drain = "antares.v1.AdminService/Drain";
        let by_socket = context(drain, true);
        let Proven { role, admin, any_tenant, .. } = by_socket.proven;
        assert!(role && admin && !any_tenant);
        assert!(matches!(by_socket.caller, Ok(Some(_))));
        let other = context(drain, false);
        assert!(!other.proven.role && !other.proven.admin && other.proven.loopback);
        assert_eq!(other.caller, Ok(None));
    }
}
