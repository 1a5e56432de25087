//! The calls of `UsageService`: what tenants used of this process.

use std::{sync::Arc, time::Duration};

use antares_proto::v1::{self, usage_service_server};
use antares_serve::{CallContext, Fault, chain, is_operator};
use antares_usage::{Hour, Ledger, Query, UsageError, UsageRow};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, async_trait};

use crate::invalid;

/// Full name of the service, for health checks.
pub const USAGE: &str = "antares.v1.UsageService";

/// Rows of one answer.
const ROWS_MAX: usize = 1_000;

/// Pages that are read at once, in the whole process: one lock is before the folder, and threads that wait
/// for it are threads that others lack.
static READERS: Semaphore = Semaphore::const_new(2);

/// How long whoever asks waits for a folder that cannot be used now.
const RETRY: Duration = Duration::from_secs(10);

/// The gRPC face of what a server keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageService;

/// Whose rows the caller gets: of the one that it asks for, if it may see others, or its own.
fn tenant_of(request: &Request<v1::ListUsageRequest>, call: &CallContext) -> Result<Option<Box<str>>, Fault> {
    let asked = request.get_ref().tenant.as_str();
    let asked_or_all = (!asked.is_empty()).then(|| asked.into());
    if call.is_admin() {
        return Ok(asked_or_all);
    }
    if !call.has_role() {
        return is_operator(request).map(|()| asked_or_all);
    }
    let account = call.account();
    let own = account.usage_name();
    if asked.is_empty() || asked == own {
        return Ok(Some(own.into()));
    }
    let problem = "what others used is for administrators: the role admin is needed";
    Err(Fault::denied("ROLE_MISSING", problem).metadata("role", "admin"))
}

fn query(request: &Request<v1::ListUsageRequest>, call: &CallContext) -> Result<Query, Fault> {
    let tenant = tenant_of(request, call)?;
    let asked = request.get_ref();
    let hour = |seconds: u64| Hour::of_seconds(seconds);
    let until = if asked.until_seconds == 0 { Hour::LAST } else { hour(asked.until_seconds) };
    let rows_max = usize::try_from(asked.page_size).unwrap_or(ROWS_MAX);
    Ok(Query {
        from: hour(asked.from_seconds),
        until,
        tenant,
        token: asked.page_token.clone(),
        rows_max: if rows_max == 0 { ROWS_MAX } else { rows_max.min(ROWS_MAX) },
    })
}

fn row(row: UsageRow) -> v1::UsageRow {
    let used = row.amounts;
    v1::UsageRow {
        hour_seconds: row.hour.seconds(),
        tenant: row.tenant.into(),
        calls: used.calls,
        refused_calls: used.refused_calls,
        sent_bytes: used.sent_bytes,
        runs: used.runs,
        guest_cycles: used.guest_cycles,
        run_us: used.run_us,
        compiles: used.compiles,
        compile_us: used.compile_us,
        stored_bytes: used.stored_bytes,
    }
}

fn fault(error: &UsageError) -> Fault {
    if matches!(error, UsageError::Token) {
        return invalid("page_token", "is not one of this server's".to_owned());
    }
    tracing::error!(error = chain(error), "what tenants used cannot be told");
    Fault::unavailable("USAGE_UNREADABLE", "what tenants used cannot be read or written now", RETRY)
}

#[async_trait]
impl usage_service_server::UsageService for UsageService {
    async fn list_usage(
        &self,
        request: Request<v1::ListUsageRequest>,
    ) -> Result<Response<v1::ListUsageResponse>, Status> {
        let call = CallContext::of(&request);
        let query = query(&request, &call)?;
        let usage = call.account().usage();
        let ledger: Arc<Ledger> = usage
            .ledger()
            .cloned()
            .ok_or_else(|| Fault::precondition("USAGE_OFF", "nothing is kept here: usage.dir is empty"))?;
        let asked = ledger.clone();
        let reader = READERS.acquire().await.map_err(|error| Fault::internal(&error))?;
        let page = tokio::task::spawn_blocking(move || {
            // Also if nobody waits for the page any more.
            let _reader = reader;
            asked.page(&query)
        });
        let page = page.await;
        let page = page.map_err(|error| Fault::internal(&error))?.map_err(|error| fault(&error))?;
        Ok(Response::new(v1::ListUsageResponse {
            rows: page.rows.into_iter().map(row).collect(),
            next_page_token: page.token,
            instance: ledger.instance().to_owned(),
        }))
    }
}
