//! The page at `/` of the metrics address, for whoever is woken at night: what is wrong now and since when,
//! how full things are, what fails and whose; then every number. It loads nothing.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_usage::Hour;

use crate::{
    duties::{blocking, keep},
    health::Health,
    last_errors::last_errors,
    metrics::Metrics,
    numbers::Numbers,
    page::{Page, StatusTable},
    signs::RUNBOOK,
    status_html::{Escaped, HEAD, bar, bytes, count, table, time},
    troubles::{Moment, Trouble, Troubles},
};

/// How often it is looked for what is wrong, also while nobody asks.
const LOOK_STEP: Duration = Duration::from_secs(15);

/// Name of the task that does.
const TASK: &str = "status";

/// Rows of a table of the largest.
const TOP: usize = 10;

/// What the page is made of. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StatusPage {
    metrics: Metrics,
    health: Health,
    troubles: Arc<Troubles>,
    paths: Vec<&'static str>,
    tables: Vec<StatusTable>,
}

impl StatusPage {
    pub(crate) fn new(metrics: Metrics, health: Health, pages: &[Page], tables: Vec<StatusTable>) -> Self {
        let paths = pages.iter().map(Page::path).collect();
        Self { metrics, health, troubles: Arc::default(), paths, tables }
    }

    /// Looks for what is wrong again and again, for as long as the runtime lives. Call it within the runtime.
    pub(crate) fn watch(&self) {
        let page = self.clone();
        keep(TASK, move || {
            let page = page.clone();
            async move {
                let mut ticks = tokio::time::interval(LOOK_STEP);
                loop {
                    ticks.tick().await;
                    let page = page.clone();
                    blocking(move || page.troubles.look(Moment::now(), &page.metrics.numbers())).await;
                }
            }
        });
    }

    /// The page as it is now. Blocks for as long as the locks of metrics do.
    pub(crate) fn html(&self) -> String {
        let text = self.metrics.text().unwrap_or_default();
        let (now, numbers) = (Moment::now(), self.metrics.numbers());
        let troubles = self.troubles.look(now, &numbers);
        let mut page = String::from(HEAD);
        self.state(&mut page, now, &numbers, &troubles);
        wrong(&mut page, now, &troubles);
        fill(&mut page, &numbers);
        certificates(&mut page, now, &numbers);
        tenants(&mut page, &numbers);
        for one in &self.tables {
            table(&mut page, one.title, one.names, &(one.rows)());
        }
        errors(&mut page, now);
        page.push_str("<h2>More</h2>\n<p>");
        let _ = write!(page, "<a href=\"{RUNBOOK}\">runbook</a> ");
        for path in ["/metrics", "/healthz", "/livez"].iter().chain(&self.paths) {
            let _ = write!(page, "<a href=\"{path}\">{path}</a> ");
        }
        page.push_str("</p>\n");
        every_number(&mut page, &String::from_utf8_lossy(&text));
        page.push_str("</body></html>\n");
        page
    }

    /// What this is, since when, and whether it serves.
    fn state(&self, page: &mut String, now: Moment, numbers: &Numbers, troubles: &[Trouble]) {
        let services = self.health.services();
        let is_serving = services.iter().all(|(_, serves)| *serves);
        let build = numbers.of("antares_build_info").next();
        let fact = |name| build.and_then(|build| build.label(name)).unwrap_or("unknown");
        let _ = writeln!(
            page,
            "<h1>Antares {} <small>revision {}, engine {}</small></h1>",
            Escaped(fact("version")),
            Escaped(fact("revision")),
            Escaped(fact("engine")),
        );
        let started = numbers.one("process_start_time_seconds").unwrap_or_else(|| now.seconds());
        let paging = troubles.iter().filter(|trouble| trouble.sign.pages).count();
        let (class, word) = match (is_serving, paging) {
            (false, _) => ("bad", "not serving"),
            (true, 0) => ("well", "serving"),
            (true, _) => ("bad", "serving, in trouble"),
        };
        let up = time(now.seconds() - started);
        let _ = writeln!(page, "<p><strong class=\"{class}\">{word}</strong> up for {up}</p>");
        page.push_str("<div><table>\n");
        for (service, serves) in services {
            let state = if serves { "serving" } else { "<strong>not serving</strong>" };
            let _ = writeln!(page, "<tr><td>{}<td>{state}", Escaped(service));
        }
        page.push_str("</table></div>\n");
    }
}

/// What is wrong now: what pages first, each with its place in the runbook.
fn wrong(page: &mut String, now: Moment, troubles: &[Trouble]) {
    page.push_str("<h2>Wrong now</h2>\n");
    if troubles.is_empty() {
        page.push_str("<p>Nothing that this process can know of.</p>\n");
        return;
    }
    page.push_str("<ul>\n");
    for Trouble { sign, of, grew, since, is_alert } in troubles {
        let (begin, end) = if sign.pages { ("<strong>", "</strong>") } else { ("", "") };
        let anchor = sign.alert.to_lowercase();
        let _ = write!(
            page,
            "<li>{begin}<a href=\"{RUNBOOK}#{anchor}\">{}</a>{end} {}",
            sign.alert,
            Escaped(sign.says)
        );
        if !of.is_empty() {
            let _ = write!(page, ": {}", Escaped(of));
        }
        if let Some(grew) = grew {
            let _ = write!(page, ", {} times lately", count(*grew));
        }
        let _ = write!(page, " <small>for {} ({})", ago(now, *since), Escaped(&at(*since)));
        if !is_alert {
            let _ = write!(page, "; the alert fires after {} min", sign.hold_minutes);
        }
        page.push_str("</small>\n");
    }
    page.push_str("</ul>\n");
}

/// How full everything is that can be.
fn fill(page: &mut String, numbers: &Numbers) {
    page.push_str("<h2>Fill</h2>\n<div><table>\n");
    for role in numbers.values("antares_workers_max", "role") {
        let of = |name| numbers.sum(name, "role", role).unwrap_or_default();
        let values = [of("antares_workers_busy"), of("antares_workers_max")];
        bar(page, &format!("{role} workers busy"), values, count);
        bar(page, &format!("waiting for a {role} worker"), [of("antares_queue_depth"), 0.0], count);
    }
    if let Some(most) = numbers.one("antares_cache_budget_bytes") {
        let charged: f64 = numbers.of("antares_cache_charged_bytes").map(|sample| sample.value).sum();
        bar(page, "store, as it counts", [charged, most], bytes);
        let disk = numbers.one("antares_cache_disk_bytes").unwrap_or_default();
        bar(page, "store, on disk", [disk, 0.0], bytes);
        let uploads = numbers.one("antares_partial_upload_bytes").unwrap_or_default();
        bar(page, "uploads that are not complete", [uploads, 0.0], bytes);
    }
    for (name, metric, words) in [
        ("ready in memory", "antares_ready_bytes", bytes as fn(f64) -> String),
        ("requests and answers in memory", "antares_request_bytes", bytes),
        ("calls in progress", "antares_calls_in_progress", count),
        ("memory of the service process", "process_resident_memory_bytes", bytes),
    ] {
        if let Some(value) = numbers.one(metric) {
            bar(page, name, [value, 0.0], words);
        }
    }
    let files = ["process_open_fds", "process_max_fds"].map(|name| numbers.one(name).unwrap_or_default());
    bar(page, "open files", files, count);
    page.push_str("</table></div>\n");
}

/// When certificates end.
fn certificates(page: &mut String, now: Moment, numbers: &Numbers) {
    let ends = numbers.of("antares_certificate_expiry_timestamp_seconds");
    let rows = ends.map(|sample| {
        let ahead = sample.value - now.seconds();
        let when = Duration::try_from_secs_f64(sample.value.max(0.0)).unwrap_or_default().as_secs();
        let left = if ahead < 0.0 { "has ended".to_owned() } else { format!("in {}", time(ahead)) };
        vec![sample.label("file").unwrap_or_default().to_owned(), left, Hour::of_seconds(when).to_string()]
    });
    table(page, "Certificates", &["file", "ends", "at, UTC"], &rows.collect::<Vec<_>>());
}

/// Who takes most.
fn tenants(page: &mut String, numbers: &Numbers) {
    let cycles_of =
        |tenant| numbers.sum("antares_tenant_guest_cycles_total", "tenant", tenant).unwrap_or_default();
    let names = numbers.values("antares_tenant_calls_total", "tenant").into_iter();
    let mut rows: Vec<(&str, f64, f64)> = names
        .map(|name| {
            let calls = numbers.sum("antares_tenant_calls_total", "tenant", name).unwrap_or_default();
            (name, cycles_of(name), calls)
        })
        .collect();
    rows.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.2.total_cmp(&one.2)));
    let rows = rows
        .iter()
        .take(TOP)
        .map(|(name, cycles, calls)| vec![(*name).to_owned(), count(*cycles), count(*calls)]);
    table(page, "Tenants, since the start", &["tenant", "cycles", "calls"], &rows.collect::<Vec<_>>());
}

/// The last errors and warnings of the log.
fn errors(page: &mut String, now: Moment) {
    let lines = last_errors();
    if lines.is_empty() {
        return;
    }
    page.push_str("<h2>Last errors and warnings of the log</h2>\n<ul>\n");
    for line in lines {
        let level = if line.is_error { "<strong>error</strong>" } else { "warning" };
        let _ = write!(page, "<li>{level} {}", Escaped(&line.text));
        let _ = write!(page, " <small>{} ago ({})", ago(now, line.at), Escaped(&at(line.at)));
        if line.count > 1 {
            let _ = write!(page, ", {} of this kind", line.count);
        }
        page.push_str("</small>\n");
    }
    page.push_str("</ul>\n");
}

/// Every family, a histogram as its count and its sum.
fn every_number(page: &mut String, metrics: &str) {
    page.push_str("<details><summary>Every number</summary>\n");
    let mut is_open = false;
    for line in metrics.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let end = if is_open { "</table></div>\n" } else { "" };
            let (name, help) = (Escaped(name), Escaped(help));
            let _ = writeln!(page, "{end}<h3>{name}</h3>\n<small>{help}</small>\n<div><table>");
            is_open = true;
        } else if let Some((name, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))
            && !name.split('{').next().is_some_and(|name| name.ends_with("_bucket"))
        {
            let _ = writeln!(page, "<tr><td>{}<td>{}", Escaped(name), Escaped(value));
        }
    }
    page.push_str(if is_open { "</table></div>\n" } else { "" });
    page.push_str("</details>\n");
}

/// How long ago `then` was.
fn ago(now: Moment, then: SystemTime) -> String {
    time(now.clock.duration_since(then).unwrap_or_default().as_secs_f64())
}

/// A time, as `2026-11-26T23:59:59Z`.
fn at(then: SystemTime) -> String {
    let seconds = then.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{}:{:02}:{:02}Z", Hour::of_seconds(seconds), seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use tonic_health::server::HealthReporter;

    use super::*;
    use crate::page::PageAnswer;

    async fn page_of(metrics: &Metrics, serves: bool) -> String {
        let health = Health::new(HealthReporter::new(), &["a.Service", "b.Service"]).await;
        health.set("a.Service", true).await;
        health.set("b.Service", serves).await;
        health.show(metrics);
        let own = Page::new("/debug/own", |_| async { PageAnswer::NotFound(String::new()) });
        let rows = || vec![vec!["<script>".to_owned(), "7".to_owned()]];
        let table = StatusTable::new("Scripts", &["script", "cycles"], rows);
        StatusPage::new(metrics.clone(), health, &[own], vec![table]).html()
    }

    fn has(page: &str, parts: &[&str]) {
        for part in parts {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[tokio::test]
    async fn all_is_well_first_and_every_number_last() {
        let metrics = Metrics::new();
        let facts = [("version", "1.2.3"), ("revision", "abc"), ("engine", "9")];
        metrics.build_info(&facts.map(|(name, value)| (name, value.to_owned())));
        metrics
            .counters("antares_one_total", "The <first>.", &["label"])
            .with_label_values(&["<a>"])
            .inc_by(7);
        metrics.histogram("antares_two_seconds", "Second.", &[1.0]).observe(0.5);
        let page = page_of(&metrics, true).await;
        has(
            &page,
            &[
                "<h1>Antares 1.2.3 <small>revision abc, engine 9</small>",
                "<strong class=\"well\">serving</strong> up for ",
                "<td>a.Service<td>serving",
                "<p>Nothing that this process can know of.</p>",
                "<td>&lt;script&gt;<td>7",
                "<a href=\"/debug/own\">/debug/own</a>",
                "The &lt;first&gt;.",
                "<tr><td>antares_one_total{label=&quot;&lt;a&gt;&quot;}<td>7",
                "<tr><td>antares_two_seconds_count<td>1",
                "name=\"viewport\"",
                RUNBOOK,
            ],
        );
        assert!(!page.contains("_bucket") && !page.contains("<script>") && !page.contains("src="));
        for tag in ["table", "div", "ul", "details", "strong", "small"] {
            let begins =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(begins, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        let place = |part: &str| page.find(part).unwrap();
        assert!(place("Wrong now") < place("<h2>Fill") && place("<h2>Fill") < place("Every number"));
    }

    #[tokio::test]
    async fn what_is_wrong_stands_in_front_with_its_place_in_the_runbook() {
        let metrics = Metrics::new();
        let gauge = |name: &str, label: &str, value: &str, number: i64| {
            metrics.gauges(name, "Test.", &[label]).with_label_values(&[value]).set(number);
        };
        gauge("antares_workers_busy", "role", "run", 3);
        gauge("antares_workers_max", "role", "run", 4);
        gauge("antares_queue_depth", "role", "run", 12);
        gauge("antares_certificate_expiry_timestamp_seconds", "file", "server", 1_767_225_600);
        metrics.gauge("antares_cache_budget_bytes", "Test.").set(2 << 30);
        gauge("antares_cache_charged_bytes", "space", "script", 1 << 30);
        for (tenant, cycles) in [("<small>", 5), ("large", 5_000_000)] {
            let add = |name: &str, by| {
                metrics.counters(name, "Test.", &["tenant"]).with_label_values(&[tenant]).inc_by(by);
            };
            add("antares_tenant_calls_total", 3);
            add("antares_tenant_guest_cycles_total", cycles);
        }
        let page = page_of(&metrics, false).await;
        has(
            &page,
            &[
                "<strong class=\"bad\">not serving</strong>",
                "<td>b.Service<td><strong>not serving</strong>",
                "deploy/RUNBOOK.md#antaresnotserving\">AntaresNotServing</a></strong> refuses its calls: service b.Service",
                "; the alert fires after 3 min",
                "ends within a day, or has ended: file server",
                "<tr><td>server<td>has ended<td>2026-01-01T00",
                "run workers busy<td><meter min=\"0\" max=\"1\" high=\"0.9\" value=\"0.750\"></meter> 3 of 4",
                "waiting for a run worker<td>12",
                "</meter> 1.0 GiB of 2.0 GiB",
                "<tr><td>large<td>5,000,000<td>3\n<tr><td>&lt;small&gt;<td>5<td>3",
            ],
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(at(UNIX_EPOCH + Duration::from_secs(1_767_225_599)), "2025-12-31T23:59:59Z");
    }
}
