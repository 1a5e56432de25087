//! What all clones of a client share.

use http::HeaderValue;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::{balance::Balance, retry::Budget, token::Token};

/// What all clones of a client share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) servers: Balance,
    pub(crate) budget: Budget,
    token: Token,
    tenant: Option<HeaderValue>,
}

impl Inner {
    pub(crate) fn new(servers: Balance, token: Token, tenant: Option<HeaderValue>) -> Self {
        Self { servers, token, tenant, budget: Budget::default() }
    }

    /// Puts token and tenant beside a message.
    pub(crate) fn sign(&self, metadata: &mut MetadataMap) {
        if let Some(token) = self.token.now() {
            metadata.insert("authorization", token);
        }
        let tenant = self.tenant.as_ref().and_then(|name| MetadataValue::try_from(name.as_bytes()).ok());
        if let Some(tenant) = tenant {
            metadata.insert("antares-tenant", tenant);
        }
    }
}
