//! The calls of `ProfileService`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use antares_abi::Sha256Digest;
use antares_analysis::insights::insights;
use antares_profile::Profile;
use antares_profile_view::{Format, FormatError, Programs, View, diff, diff_markdown};
use antares_proto::v1::{self, profile_service_server};
use antares_serve::{Account, Fault, Page, PageAnswer};
use tonic::{Request, Response, Status, async_trait};

use crate::{
    execute::order::Script,
    limits::{PROFILE_PROGRAMS_MAX, PROFILE_ROWS_DEFAULT, PROFILE_ROWS_MAX},
    profiles::deltas::{READERS_MAX, Reader},
    runner::Runner,
    tenant::{Tenant, tenant},
};

/// The gRPC service for a [`Runner`]'s profiles.
#[derive(Clone)]
pub(crate) struct ProfileService {
    runner: Runner,
}

/// A profile and the names of its addresses.
pub(crate) struct Named {
    pub(crate) profile: Profile,
    pub(crate) programs: Programs,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Named {
    pub(crate) fn view(&self) -> View<'_> {
        View::new(&self.profile, &self.programs)
    }
}

impl ProfileService {
    pub(crate) fn new(runner: Runner) -> Self {
        Self { runner }
    }

    /// The profile of a selection of `tenant`'s runs; `field` is its path in the request.
    async fn named(
        &self,
        tenant: &Tenant,
        selection: Option<v1::ProfileSelection>,
        field: &str,
    ) -> Result<Named, Fault> {
        let v1::ProfileSelection { script, window_ms } = selection.unwrap_or_default();
        let script = script.as_deref().map(str::parse::<Sha256Digest>).transpose();
        let script = script.map_err(|error| invalid(&format!("{field}.script"), &error.to_string()))?;
        let window = window_ms.map(Duration::from_millis);
        let found = named(&self.runner, &tenant.account, Some(&tenant.name), script, window).await;
        found.ok_or_else(|| {
            let what = script.map_or_else(|| "of this tenant".to_owned(), |script| script.to_string());
            Fault::not_found("PROFILE_NOT_FOUND", "profile", what)
        })
    }
}

/// The profile of `runner`'s runs, with the programs that `account` may read.
async fn named(
    runner: &Runner,
    account: &Account,
    tenant: Option<&str>,
    script: Option<Sha256Digest>,
    window: Option<Duration>,
) -> Option<Named> {
    let profile = runner.profiles.store.get(tenant, script, window)?;
    Some(with_programs(runner, account, profile, tenant, script).await)
}

/// The profile with the programs that `account` may read from `runner`'s source. It names only programs that
/// its runs had: workers' samples were checked.
pub(crate) async fn with_programs(
    runner: &Runner,
    account: &Account,
    profile: Profile,
    tenant: Option<&str>,
    script: Option<Sha256Digest>,
) -> Named {
    let mut programs = Programs::default();
    let digests = profile.programs().iter().filter_map(|program| program.elf).take(PROFILE_PROGRAMS_MAX);
    for digest in digests {
        // Programs missing from the store show addresses instead of names.
        if let Ok(loaded) = runner.artifacts.script(account, Script::Stored(digest)).await
            && let Ok(elf) = loaded.elf.read()
        {
            programs.add(&elf);
        }
    }
    let mut labels = BTreeMap::from([("service".to_owned(), "antares".to_owned())]);
    if let Some(tenant) = tenant.filter(|tenant| !tenant.is_empty()) {
        labels.insert("tenant".to_owned(), tenant.to_owned());
    }
    if let Some(script) = script {
        labels.insert("script".to_owned(), script.to_string());
    }
    Named { profile, programs, labels }
}

/// `/debug/pprof/guest`: a profile for `pprof`. `seconds` is its time range (all stored profiles if absent),
/// `script` a digest, `tenant` a name; absent means all. With `delta`, the name of a reader, it covers runs
/// since that reader's last request.
pub(crate) fn page(runner: &Runner) -> Page {
    let runner = runner.clone();
    Page::new("/debug/pprof/guest", move |query| {
        let runner = runner.clone();
        async move { answer(&runner, &query).await }
    })
}

/// Longest name of a reader, bytes.
const READER_BYTES_MAX: usize = 64;

async fn answer(runner: &Runner, query: &BTreeMap<String, String>) -> PageAnswer {
    let seconds = match query.get("seconds").map(|seconds| seconds.parse::<u32>()) {
        None => None,
        Some(Ok(seconds)) => Some(Duration::from_secs(u64::from(seconds))),
        Some(Err(error)) => return PageAnswer::Invalid(format!("seconds: {error}")),
    };
    let script = match query.get("script").map(|digest| digest.parse::<Sha256Digest>()) {
        None => None,
        Some(Ok(digest)) => Some(digest),
        Some(Err(error)) => return PageAnswer::Invalid(format!("script: {error}")),
    };
    let tenant = query.get("tenant").map(String::as_str);
    // The operator's own account.
    let account = Account::named(tenant.unwrap_or_default());
    let named = match query.get("delta") {
        None => named(runner, &account, tenant, script, seconds).await,
        Some(_) if seconds.is_some() => {
            return PageAnswer::Invalid(
                "seconds: makes no sense with delta, which goes back to the last answer".to_owned(),
            );
        }
        Some(name) if !(1..=READER_BYTES_MAX).contains(&name.len()) => {
            return PageAnswer::Invalid(format!("delta: must be a name of 1 to {READER_BYTES_MAX} bytes"));
        }
        Some(name) => {
            let reader = Reader { name: name.clone(), tenant: tenant.map(str::to_owned), script };
            let Some(profile) = runner.profiles.store.delta(reader) else {
                return PageAnswer::Invalid(format!("delta: there are {READERS_MAX} readers"));
            };
            Some(with_programs(runner, &account, profile, tenant, script).await)
        }
    };
    let Some(named) = named else {
        return PageAnswer::NotFound("nothing was run that fits".to_owned());
    };
    let written = work(move || Format::Pprof.write(&named.view(), &named.labels, None)).await;
    match written {
        Ok(Ok(bytes)) => PageAnswer::Found { media_type: "application/octet-stream", bytes },
        _ => PageAnswer::NotFound("the profile cannot be written".to_owned()),
    }
}

fn invalid(field: &str, problem: &str) -> Fault {
    Fault::invalid("REQUEST_INVALID", format!("{field}: {problem}")).violation(field, problem)
}

/// Profiles that are symbolized at once: symbols of a big script take memory and seconds of a core.
static VIEWS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Runs slow symbol work off the runtime's threads.
pub(crate) async fn work<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    let _turn = VIEWS.acquire().await.map_err(|_| Fault::failed("INTERNAL", "internal error"))?;
    // It panicked; the hook has logged where.
    tokio::task::spawn_blocking(make).await.map_err(|_| Fault::failed("INTERNAL", "internal error"))
}

fn rows(limit: Option<u32>) -> Result<usize, Fault> {
    let limit = limit.unwrap_or(PROFILE_ROWS_DEFAULT);
    if !(1..=PROFILE_ROWS_MAX).contains(&limit) {
        return Err(invalid("limit", &format!("must be from 1 to {PROFILE_ROWS_MAX}")));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn format(name: Option<&str>) -> Result<Format, Fault> {
    name.map_or(Ok(Format::Pprof), str::parse).map_err(|problem| invalid("format", &problem))
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(cycles: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { cycles as f64 / all as f64 }
}

#[async_trait]
impl profile_service_server::ProfileService for ProfileService {
    async fn list_profiles(
        &self,
        request: Request<v1::ListProfilesRequest>,
    ) -> Result<Response<v1::ListProfilesResponse>, Status> {
        let tenant = tenant(&request)?.name;
        let window = request.into_inner().window_ms.map(Duration::from_millis);
        let scripts = self.runner.profiles.store.list(&tenant, window).into_iter();
        let scripts = scripts.map(|(script, cycles, runs)| v1::ProfiledScript {
            script: script.map_or_else(String::new, |script| script.to_string()),
            cycles,
            runs,
        });
        Ok(Response::new(v1::ListProfilesResponse { scripts: scripts.collect() }))
    }

    async fn get_profile(
        &self,
        request: Request<v1::GetProfileRequest>,
    ) -> Result<Response<v1::GetProfileResponse>, Status> {
        let tenant = tenant(&request)?;
        let v1::GetProfileRequest { selection, format: name } = request.into_inner();
        let format = format(name.as_deref())?;
        let named = self.named(&tenant, selection, "selection").await?;
        let cycles = named.profile.sum().cycles;
        let written = work(move || format.write(&named.view(), &named.labels, None)).await?;
        let profile = written.map_err(|error: FormatError| match &error {
            FormatError::NoLines { .. } => Fault::precondition("FORMAT_NOT_FIT", error.to_string()),
            FormatError::Profile(_) => Fault::internal(&error),
        })?;
        Ok(Response::new(v1::GetProfileResponse { profile: profile.into(), cycles }))
    }

    async fn top_functions(
        &self,
        request: Request<v1::TopFunctionsRequest>,
    ) -> Result<Response<v1::TopFunctionsResponse>, Status> {
        let tenant = tenant(&request)?;
        let v1::TopFunctionsRequest { selection, limit } = request.into_inner();
        let limit = rows(limit)?;
        let named = self.named(&tenant, selection, "selection").await?;
        let cycles = named.profile.sum().cycles;
        let functions = work(move || named.view().top(limit)).await?;
        let functions = functions.into_iter().map(|row| v1::FunctionCost {
            name: row.name,
            file: row.file,
            self_cycles: row.own.cycles,
            total_cycles: row.total.cycles,
        });
        Ok(Response::new(v1::TopFunctionsResponse { functions: functions.collect(), cycles }))
    }

    async fn get_call_graph(
        &self,
        request: Request<v1::GetCallGraphRequest>,
    ) -> Result<Response<v1::GetCallGraphResponse>, Status> {
        let tenant = tenant(&request)?;
        let v1::GetCallGraphRequest { selection, function } = request.into_inner();
        let named = self.named(&tenant, selection, "selection").await?;
        let name: Arc<str> = function.as_str().into();
        let graph = work(move || named.view().call_graph(&name)).await?;
        let graph = graph.ok_or_else(|| invalid("function", "no such function in the profile"))?;
        let edges = |edges: Vec<antares_profile_view::Edge>| {
            let edges = edges.into_iter();
            edges.map(|edge| v1::CallEdge { name: edge.name, cycles: edge.value.cycles }).collect()
        };
        Ok(Response::new(v1::GetCallGraphResponse {
            self_cycles: graph.own.cycles,
            total_cycles: graph.total.cycles,
            callers: edges(graph.callers),
            callees: edges(graph.callees),
        }))
    }

    async fn diff_profiles(
        &self,
        request: Request<v1::DiffProfilesRequest>,
    ) -> Result<Response<v1::DiffProfilesResponse>, Status> {
        let tenant = tenant(&request)?;
        let v1::DiffProfilesRequest { before, after, limit } = request.into_inner();
        let limit = rows(limit)?;
        let before = self.named(&tenant, before, "before").await?;
        let after = self.named(&tenant, after, "after").await?;
        let sums = (before.profile.sum().cycles, after.profile.sum().cycles);
        let (mut changes, markdown) = work(move || {
            let views = (before.view(), after.view());
            (diff(&views.0, &views.1), diff_markdown(&views.0, &views.1, limit))
        })
        .await?;
        changes.truncate(limit);
        let changes = changes.into_iter().map(|change| v1::FunctionChange {
            name: change.name,
            before: share(change.before.cycles, sums.0),
            after: share(change.after.cycles, sums.1),
        });
        Ok(Response::new(v1::DiffProfilesResponse {
            changes: changes.collect(),
            before_cycles: sums.0,
            after_cycles: sums.1,
            markdown,
        }))
    }

    async fn get_insights(
        &self,
        request: Request<v1::GetInsightsRequest>,
    ) -> Result<Response<v1::GetInsightsResponse>, Status> {
        let tenant = tenant(&request)?;
        let named = self.named(&tenant, request.into_inner().selection, "selection").await?;
        let cycles = named.profile.sum().cycles;
        let findings = work(move || insights(&named.view())).await?;
        let insights = findings.into_iter().map(|finding| v1::Insight {
            rule: finding.rule.into_str().to_owned(),
            function: finding.function,
            place: finding.place.unwrap_or_default(),
            cycles: finding.cycles,
            why: finding.why,
            advice: finding.advice,
            measured: finding.measured.unwrap_or_default().to_owned(),
            address: finding.address,
            saves_cycles: finding.saves,
        });
        Ok(Response::new(v1::GetInsightsResponse { insights: insights.collect(), cycles }))
    }
}
