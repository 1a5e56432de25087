//! Metrics in the OpenMetrics 1.0 format, which adds exemplars: example traces of buckets.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use opentelemetry::TraceId;
use parking_lot::Mutex;
use prometheus::{
    HistogramVec,
    proto::{Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

/// The format's media type, as in Prometheus' requests.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An example trace of a bucket: the last sampled one that fell into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exemplar {
    trace: TraceId,
    value: f64,
    at: SystemTime,
}

/// By a family's label values, then by bucket; bounded by the labels and buckets.
pub(crate) type Exemplars = Arc<Mutex<HashMap<Vec<String>, Vec<Option<Exemplar>>>>>;

/// Histograms with exemplars. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TracedHistograms {
    pub(crate) family: HistogramVec,
    pub(crate) bounds: &'static [f64],
    pub(crate) exemplars: Exemplars,
}

impl TracedHistograms {
    /// Counts `value`, seen in `trace` if that is exported. `labels` are sorted by name.
    pub(crate) fn observe(&self, labels: &[&str], value: f64, trace: Option<TraceId>) {
        self.family.with_label_values(labels).observe(value);
        let Some(trace) = trace else { return };
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        let mut exemplars = self.exemplars.lock();
        let buckets = exemplars.entry(labels).or_insert_with(|| vec![None; self.bounds.len() + 1]);
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        buckets[bucket] = Some(Exemplar { trace, value, at: SystemTime::now() });
    }
}

/// `families` as OpenMetrics, with `exemplars` by family name.
pub(crate) fn text(families: &[MetricFamily], exemplars: &HashMap<String, Exemplars>) -> String {
    let mut text = String::new();
    for family in families {
        write_family(&mut text, family, exemplars.get(family.name()));
    }
    text.push_str("# EOF\n");
    text
}

fn write_family(text: &mut String, family: &MetricFamily, exemplars: Option<&Exemplars>) {
    let full = family.name();
    let (name, kind) = match (family.get_field_type(), full.strip_suffix("_total")) {
        (MetricType::COUNTER, Some(name)) => (name, "counter"),
        (MetricType::GAUGE, _) => (full, "gauge"),
        (MetricType::HISTOGRAM, _) => (full, "histogram"),
        // A counter must end in _total in this format.
        _ => (full, "unknown"),
    };
    line(text, format_args!("# TYPE {name} {kind}"));
    if !family.help().is_empty() {
        line(text, format_args!("# HELP {name} {}", escaped(family.help())));
    }
    for metric in family.get_metric() {
        let labels = labels_of(metric);
        match family.get_field_type() {
            MetricType::COUNTER => sample(text, full, &labels, metric.get_counter().get_value()),
            MetricType::GAUGE => sample(text, full, &labels, metric.get_gauge().get_value()),
            MetricType::HISTOGRAM => {
                let values = metric.get_label().iter().map(|label| label.value().to_owned()).collect();
                write_histogram(
                    text,
                    full,
                    &labels,
                    metric.get_histogram(),
                    &exemplars_of(exemplars, &values),
                );
            }
            // The workspace uses no other types.
            _ => {}
        }
    }
}

/// The exemplars of one histogram; none if it has none.
fn exemplars_of(exemplars: Option<&Exemplars>, labels: &Vec<String>) -> Vec<Option<Exemplar>> {
    let kept = exemplars.map(|kept| kept.lock());
    kept.and_then(|kept| kept.get(labels).cloned()).unwrap_or_default()
}

fn write_histogram(
    text: &mut String,
    name: &str,
    labels: &str,
    histogram: &Histogram,
    exemplars: &[Option<Exemplar>],
) {
    let separator = if labels.is_empty() { "" } else { "," };
    let finite = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let buckets = finite.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    let buckets = buckets.chain([(f64::INFINITY, histogram.get_sample_count())]);
    for (number, (bound, count)) in buckets.enumerate() {
        let bound = number_of(bound);
        let mark = exemplars.get(number).copied().flatten().map(mark).unwrap_or_default();
        line(text, format_args!("{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {count}{mark}"));
    }
    sample(text, &format!("{name}_sum"), labels, histogram.get_sample_sum());
    line(text, format_args!("{name}_count{} {}", braced(labels), histogram.get_sample_count()));
}

/// An exemplar after its bucket.
fn mark(Exemplar { trace, value, at }: Exemplar) -> String {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    format!(" # {{trace_id=\"{trace}\"}} {} {at:.3}", number_of(value))
}

fn sample(text: &mut String, name: &str, labels: &str, value: f64) {
    line(text, format_args!("{name}{} {}", braced(labels), number_of(value)));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn labels_of(metric: &Metric) -> String {
    let label = |label: &LabelPair| format!("{}=\"{}\"", label.name(), escaped(label.value()));
    metric.get_label().iter().map(label).collect::<Vec<_>>().join(",")
}

/// The format's spelling of a number: `1.0` for an integer.
fn number_of(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    format!("{value:?}")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use crate::Metrics;

    #[test]
    fn every_kind_has_its_form_and_buckets_have_their_last_trace() {
        let metrics = Metrics::default();
        metrics.counter("antares_test_total", "Says \"so\".").inc_by(3);
        metrics.gauges("antares_level", "A level.", &["of"]).with_label_values(&["a\\b"]).set(-2);
        let traced = metrics.traced_histograms("antares_seconds", "Time.", &[0.5, 1.0], &["how"]);
        let id = |byte| opentelemetry::TraceId::from_bytes([byte; 16]);
        traced.observe(&["well"], 0.5, Some(id(1)));
        traced.observe(&["well"], 0.75, Some(id(2)));
        traced.observe(&["well"], 0.8, Some(id(3)));
        traced.observe(&["well"], 7.0, None);
        let text = metrics.open_metrics();
        let (one, three) = ("01".repeat(16), "03".repeat(16));
        for expected in [
            "# TYPE antares_test counter\n# HELP antares_test Says \\\"so\\\".\nantares_test_total 3.0\n"
                .to_owned(),
            "antares_level{of=\"a\\\\b\"} -2.0\n".to_owned(),
            format!("antares_seconds_bucket{{how=\"well\",le=\"0.5\"}} 1 # {{trace_id=\"{one}\"}} 0.5 "),
            format!("antares_seconds_bucket{{how=\"well\",le=\"1.0\"}} 3 # {{trace_id=\"{three}\"}} 0.8 "),
            "antares_seconds_bucket{how=\"well\",le=\"+Inf\"} 4\n".to_owned(),
            "antares_seconds_sum{how=\"well\"} 9.05\nantares_seconds_count{how=\"well\"} 4\n".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }
}
