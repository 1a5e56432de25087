//! What a tenant may use up: its calls in progress. Who hears that a quota is used up hears it late: who
//! asks again at once and at once takes the machine from others.

use std::{future::Future, time::Duration};

use http::{Request, Response};
use tonic::body::Body;

use super::{
    around::{Answering, Around},
    check::Check,
    context::CallContext,
};
use crate::{
    account::QUOTA,
    authenticator::ByAdminSocket,
    status::{Fault, code_in, reason_in},
};

/// How long a caller waits to hear that a quota is used up.
const PAUSE: Duration = Duration::from_millis(20);

/// Gives the call its place among those of its tenant.
#[derive(Clone, Debug)]
pub(crate) struct Quota;

impl Check for Quota {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let is_by_socket = request.extensions().get::<ByAdminSocket>().is_some();
        let context = CallContext::in_request(request);
        if !context.is_exempt && !is_by_socket {
            context.ending.hold(context.account().begin_call()?);
        }
        Ok(())
    }
}

/// Holds back answers that say that a quota is used up, by whomever.
#[derive(Clone, Debug)]
pub(crate) struct QuotaPause;

impl Around for QuotaPause {
    fn around<F, E>(&self, request: Request<Body>, rest: impl FnOnce(Request<Body>) -> F) -> Answering<E>
    where
        F: Future<Output = Result<Response<Body>, E>> + Send + 'static,
        E: Send + 'static,
    {
        let rest = rest(request);
        Box::pin(async move {
            let response = rest.await?;
            if code_in(response.headers()) == Some("RESOURCE_EXHAUSTED")
                && reason_in(response.headers()).is_some_and(|reason| reason == QUOTA)
            {
                tokio::time::sleep(PAUSE).await;
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tonic::Status;

    use super::*;

    async fn retry_after(fault: Fault) -> Duration {
        let began = Instant::now();
        let rest = |_| std::future::ready(Ok::<_, Status>(Status::from(fault).into_http()));
        QuotaPause.around(Request::new(Body::empty()), rest).await.unwrap();
        began.elapsed()
    }

    #[tokio::test]
    async fn who_has_used_up_a_quota_hears_it_after_a_moment() {
        let quota = Fault::exhausted(QUOTA, "", Duration::ZERO);
        assert!(retry_after(quota).await >= PAUSE);
    }
}
