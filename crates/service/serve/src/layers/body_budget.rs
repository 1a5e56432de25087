//! Bytes of requests and responses: charged to their peer while the server holds them, within their own
//! limits.

use std::{sync::Arc, time::Duration};

use antares_config::Listen;
use http::Request;
use tonic::body::Body;

use super::{
    around::{Answering, Around, refused},
    context::CallContext,
};
use crate::{
    answer::metered,
    body::{BytesSlot, MeteredBody, RequestBytes, Terms, over_budget},
    budget::Budget,
    limits::MESSAGE_TIME_MAX,
    metrics::{Metrics, set_gauge},
    peer::Peer,
};

#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    bytes: Arc<Budget<Peer>>,
    message_bytes_max: usize,
    message_time_max: Duration,
}

impl BodyBudget {
    /// A layer with the limits of `listen`.
    pub(crate) fn new(listen: &Listen, metrics: &Metrics) -> Self {
        let bytes = Arc::new(Budget::new(listen.request_bytes_max, listen.request_bytes_per_peer_max()));
        let gauge =
            metrics.gauge("antares_request_bytes", "Bytes of requests in progress and of answers not taken.");
        let watched = bytes.clone();
        metrics.before_scrape(move || set_gauge(&gauge, watched.total()));
        Self { bytes, message_bytes_max: listen.message_bytes_max, message_time_max: MESSAGE_TIME_MAX }
    }

    /// Limits of a call's request.
    fn terms(&self, request: &Request<Body>, is_stream: bool) -> Terms {
        Terms {
            message_bytes_max: self.message_bytes_max,
            message_time_max: self.message_time_max,
            is_stream,
            is_encoded: request.headers().get("grpc-encoding").is_some_and(|name| name != "identity"),
        }
    }
}

impl Around for BodyBudget {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let slot = request.extensions().get::<BytesSlot>().cloned();
        let context = CallContext::in_request(&mut request);
        let (peer, is_stream, is_exempt) = (context.peer, context.is_stream, context.is_exempt);
        let charged = match self.bytes.take(&peer, 0) {
            Ok(nothing_yet) => Arc::new(nothing_yet),
            Err(spent) => {
                return refused(over_budget(spent));
            }
        };
        // The message lives as long as the call.
        context.ending.hold(charged.clone());
        let bytes = RequestBytes::new(self.bytes.clone(), peer);
        context.bytes = Some(bytes.clone());
        if let Some(slot) = slot {
            slot.fill(bytes);
        }
        let terms = self.terms(&request, is_stream);
        let rest = rest(request.map(|body| Body::new(MeteredBody::new(body, terms, charged))));
        let budget = (!is_exempt).then(|| self.bytes.clone());
        Box::pin(async move {
            let response = rest.await?;
            match budget {
                Some(budget) => Ok(metered(response, budget, peer).await),
                None => Ok(response),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use antares_config::{ConfigFile, Role};
    use http_body_util::BodyExt as _;
    use tonic::Status;

    use super::*;
    use crate::status::code_in;

    #[tokio::test]
    async fn bytes_are_charged_while_the_call_lasts() {
        let listen = ConfigFile::default().check(Role::Both, &[]).unwrap().listen;
        let layer = BodyBudget::new(&listen, &Metrics::new());
        let mut request =
            Request::new(Body::new(http_body_util::Full::new(bytes::Bytes::from_static(b"\0\0\0\0\x03abc"))));
        let context = CallContext::new(Arc::from("s/m"), false, Peer::UNKNOWN);
        let ending = context.ending.clone();
        request.extensions_mut().insert(context);
        let bytes = layer.bytes.clone();
        let rest = |mut request: Request<Body>| {
            assert!(CallContext::in_request(&mut request).bytes.is_some());
            Box::pin(async move {
                request.body_mut().collect().await.unwrap();
                assert_eq!(bytes.total(), 8, "as long as the call lasts, though it was read");
                Ok(Status::ok("").into_http())
            }) as Answering
        };
        let response = layer.around(request, rest).await.unwrap();
        assert_eq!(code_in(response.headers()), Some("OK"));
        assert_eq!(layer.bytes.total(), 8);
        drop(ending);
        assert_eq!(layer.bytes.total(), 0);
    }
}
