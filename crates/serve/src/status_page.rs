//! The page at `/` of the metrics address: which services serve, and every number, for people without a dashboard. It loads nothing.

use std::fmt::Write as _;

/// The page, made of the health of services and of the text that `/metrics` gives.
pub(crate) fn status_page(services: &[(&'static str, bool)], metrics: &str) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Antares</title>\n<style>\
         :root { color-scheme: light dark; font: 14px system-ui, sans-serif }\
         table { border-collapse: collapse } td { padding: 1px 1em 1px 0; vertical-align: top }\
         td:last-child { text-align: right; font-variant-numeric: tabular-nums } small { opacity: .75 }\
         </style></head><body>\n<h1>Antares</h1>\n<table>\n",
    );
    for (service, serves) in services {
        let state = if *serves { "serving" } else { "<strong>not serving</strong>" };
        let _ = writeln!(page, "<tr><td>{}<td>{state}", escaped(service));
    }
    page.push_str("</table>\n");
    let mut is_open = false;
    for line in metrics.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let end = if is_open { "</table>\n" } else { "" };
            let (name, help) = (escaped(name), escaped(help));
            let _ = writeln!(page, "{end}<h3>{name}</h3>\n<small>{help}</small>\n<table>");
            is_open = true;
        } else if let Some((name, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) {
            // A histogram is its count and its sum here.
            if !name.split('{').next().is_some_and(|name| name.ends_with("_bucket")) {
                let _ = writeln!(page, "<tr><td>{}<td>{}", escaped(name), escaped(value));
            }
        }
    }
    page.push_str(if is_open { "</table>\n" } else { "" });
    page.push_str(
        "<p><small><a href=\"metrics\">metrics</a> <a href=\"healthz\">healthz</a></small></body></html>\n",
    );
    page
}

/// `text` as text of a page: tenants and scripts choose labels.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_services_and_numbers() {
        let metrics = "# HELP one The <first>.\n# TYPE one counter\none{label=\"<a>\"} 7\n# HELP two Second.\n\
                       # TYPE two histogram\ntwo_bucket{le=\"1\"} 3\ntwo_sum 1.5\ntwo_count 3\n";
        let page = status_page(&[("a.Service", true), ("b.Service", false)], metrics);
        for part in [
            "<td>a.Service<td>serving",
            "<td>b.Service<td><strong>not serving",
            "The &lt;first&gt;.",
            "<tr><td>one{label=&quot;&lt;a&gt;&quot;}<td>7",
            "<tr><td>two_count<td>3",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("bucket") && !page.contains("<a>"));
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
    }
}
