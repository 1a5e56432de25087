//! `antares usage`: what tenants used, of all servers together.

use std::{collections::BTreeMap, fmt::Write as _, process::ExitCode};

use antares_proto::v1::{self, usage_service_client::UsageServiceClient};
use antares_usage::{Amounts, Hour, NAMES};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    args::{credentials::CredentialArgs, servers::ServerArgs},
    failure::Failure,
    output,
    remote::{Server, call},
};

/// Pages of one server, at most: a server that never ends is none of ours.
const PAGES_MAX: usize = 100_000;

/// Words of `antares usage`.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// The servers, which are added up, for example http://127.0.0.1:50051; once for each [default:
    /// ANTARES_SERVER]
    #[arg(long, value_name = "URL")]
    server: Vec<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
    /// From this hour, UTC, such as 2026-11-26T23, or from this day [default: all that is kept]
    #[arg(long, value_name = "TIME")]
    since: Option<Hour>,
    /// Before this hour, UTC, or before this day [default: all that is kept]
    #[arg(long, value_name = "TIME")]
    until: Option<Hour>,
    /// Of this tenant alone
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// What is added up
    #[arg(long, value_enum, value_name = "hour|day|total", default_value_t, hide_possible_values = true)]
    by: Period,
    /// Print CSV instead of a table
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What a row is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Period {
    /// An hour
    Hour,
    /// A day
    Day,
    /// All of it
    #[default]
    Total,
}

impl Period {
    fn name(self, hour: Hour) -> String {
        match self {
            Self::Hour => hour.to_string(),
            Self::Day => hour.day(),
            Self::Total => "total".to_owned(),
        }
    }
}

/// Sums by period and tenant.
type Sums = BTreeMap<(String, String), Amounts>;

/// `antares usage --json`.
#[derive(Debug, Serialize)]
struct UsageShape<'a> {
    /// Names of the servers' folders.
    instances: &'a [String],
    rows: Vec<RowShape<'a>>,
}

#[derive(Debug, Serialize)]
struct RowShape<'a> {
    period: &'a str,
    tenant: &'a str,
    #[serde(flatten)]
    amounts: &'a Amounts,
}

/// Does what `args` say. Without one of the servers there is no answer: a sum that lacks some is none.
pub(crate) fn usage(args: &UsageArgs) -> Result<ExitCode, Failure> {
    let (mut sums, mut instances) = (Sums::new(), Vec::new());
    for server in servers(args)? {
        let (instance, rows) = server.usage(&request(args))?;
        if instances.contains(&instance) {
            return Err(Failure::Usage(anyhow!("two of the servers are one: {instance}")));
        }
        instances.push(instance);
        for row in rows {
            let key = (args.by.name(Hour::of_seconds(row.hour_seconds)), row.tenant.clone());
            sums.entry(key).or_default().add(&amounts(&row));
        }
    }
    let text = if args.json {
        let row = |((period, tenant), amounts)| RowShape { period, tenant, amounts };
        let rows = sums.iter().map(|((period, tenant), amounts)| row(((&**period, &**tenant), amounts)));
        let shape = UsageShape { instances: &instances, rows: rows.collect() };
        serde_json::to_string(&shape).map_err(|error| Failure::Service(error.into()))? + "\n"
    } else if args.csv {
        csv(&sums)
    } else {
        table(&sums)
    };
    output::print(output::printable(&text).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn servers(args: &UsageArgs) -> Result<Vec<Server>, Failure> {
    if args.server.is_empty() {
        let named = ServerArgs { server: None, credentials: args.credentials.clone() };
        return Ok(vec![named.server()?]);
    }
    args.server.iter().map(|url| Server::parse(url, &args.credentials)).collect()
}

fn request(args: &UsageArgs) -> v1::ListUsageRequest {
    v1::ListUsageRequest {
        from_seconds: args.since.map_or(0, Hour::seconds),
        until_seconds: args.until.map_or(0, Hour::seconds),
        tenant: args.tenant.clone().unwrap_or_default(),
        ..Default::default()
    }
}

fn amounts(row: &v1::UsageRow) -> Amounts {
    Amounts {
        calls: row.calls,
        refused_calls: row.refused_calls,
        sent_bytes: row.sent_bytes,
        runs: row.runs,
        guest_cycles: row.guest_cycles,
        run_us: row.run_us,
        compiles: row.compiles,
        compile_us: row.compile_us,
        stored_bytes: row.stored_bytes,
    }
}

fn csv(sums: &Sums) -> String {
    let mut text = format!("period,tenant,{}\n", NAMES.join(","));
    for ((period, tenant), amounts) in sums {
        let values = amounts.values().map(|value| value.to_string());
        // Writing to a string does not fail.
        let _ = writeln!(text, "{period},{tenant},{}", values.join(","));
    }
    text
}

/// The rows, each column as wide as it must be.
fn table(sums: &Sums) -> String {
    let mut rows = vec![["period", "tenant"].into_iter().chain(NAMES).map(str::to_owned).collect::<Vec<_>>()];
    for ((period, tenant), amounts) in sums {
        let values = amounts.values().map(|value| value.to_string());
        rows.push([period.clone(), tenant.clone()].into_iter().chain(values).collect());
    }
    let widths: Vec<_> = (0..rows[0].len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

impl Server {
    /// All pages of what `request` asks for, and whose they are.
    fn usage(&self, request: &v1::ListUsageRequest) -> Result<(String, Vec<v1::UsageRow>), Failure> {
        let told = self.ask(async |channel| {
            let mut client = UsageServiceClient::new(channel);
            let (mut request, mut rows) = (request.clone(), Vec::new());
            for _ in 0..PAGES_MAX {
                let page = client.list_usage(call(request.clone())).await?.into_inner();
                rows.extend(page.rows);
                if page.next_page_token.is_empty() {
                    return Ok(Some((page.instance, rows)));
                }
                request.page_token = page.next_page_token;
            }
            Ok(None)
        })?;
        told.ok_or_else(|| Failure::Service(anyhow!("there is no end to what the server tells")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_in_columns() {
        let amounts = |calls| Amounts { calls, ..Amounts::default() };
        let key = |tenant: &str| ("total".to_owned(), tenant.to_owned());
        let sums = Sums::from([(key("acme"), amounts(1_000)), (key("b"), amounts(7))]);
        let text = table(&sums);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("period  tenant  calls  refused_calls"), "{text}");
        assert!(lines[1].starts_with("total   acme     1000"), "{text}");
        assert_eq!(csv(&sums).lines().last(), Some("total,b,7,0,0,0,0,0,0,0,0"));
        let hour: Hour = "2026-11-26T23".parse().unwrap();
        let names = [Period::Hour, Period::Day, Period::Total].map(|period| period.name(hour));
        assert_eq!(names, ["2026-11-26T23", "2026-11-26", "total"]);
    }
}
