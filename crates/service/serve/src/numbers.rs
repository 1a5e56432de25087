//! What `/metrics` says, as numbers to ask for.

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

/// The metrics of one moment.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Vec<MetricFamily>);

/// One number of a family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) labels: &'a [LabelPair],
    /// Of a histogram, how many were observed.
    pub(crate) value: f64,
}

impl Numbers {
    pub(crate) fn new(families: Vec<MetricFamily>) -> Self {
        Self(families)
    }

    /// All numbers of the family `name`.
    pub(crate) fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = Sample<'a>> + use<'a> {
        let family = self.0.iter().find(|family| family.name() == name);
        family.into_iter().flat_map(|family| {
            let kind = family.get_field_type();
            family
                .get_metric()
                .iter()
                .map(move |metric| Sample { labels: metric.get_label(), value: value_of(metric, kind) })
        })
    }

    /// The numbers of `name` that have `value` for `label`, together; none where there is none.
    pub(crate) fn sum(&self, name: &str, label: &str, value: &str) -> Option<f64> {
        let those = self.of(name).filter(|sample| sample.label(label) == Some(value));
        those.map(|sample| sample.value).reduce(|one, other| one + other)
    }

    /// The number of a family without labels.
    pub(crate) fn one(&self, name: &str) -> Option<f64> {
        self.of(name).next().map(|sample| sample.value)
    }

    /// The values that `label` has in the family `name`, in their order.
    pub(crate) fn values<'a>(&'a self, name: &str, label: &str) -> Vec<&'a str> {
        let mut values: Vec<&str> = self.of(name).filter_map(|sample| sample.label(label)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

impl<'a> Sample<'a> {
    /// The value of the label `name`.
    pub(crate) fn label(&self, name: &str) -> Option<&'a str> {
        self.labels.iter().find(|label| label.name() == name).map(LabelPair::value)
    }
}

fn value_of(metric: &Metric, kind: MetricType) -> f64 {
    match kind {
        MetricType::COUNTER => metric.get_counter().get_value(),
        MetricType::GAUGE => metric.get_gauge().get_value(),
        #[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
        MetricType::HISTOGRAM => metric.get_histogram().get_sample_count() as f64,
        // The workspace has no others.
        _ => 0.0,
    }
}
