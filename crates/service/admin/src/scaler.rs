//! What an autoscaler is told: how much work this process has, in KEDA's protocol for external scalers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antares_proto::keda::{self, external_scaler_server};
use antares_serve::Fault;
use tokio::{sync::mpsc, time::interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

/// Full name of the service, for health checks.
pub const SCALER: &str = "externalscaler.ExternalScaler";

/// Between two looks at the process.
const STEP: Duration = Duration::from_millis(250);

/// Looks that are remembered: 15 seconds.
const LOOKS_MAX: usize = 60;

/// How busy a process is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Work that waits for a worker.
    pub waiting: u64,
    /// Workers that have some.
    pub busy: u64,
    /// Workers that can have some at once.
    pub workers_max: u64,
    /// Guest cycles since the start; none where no guests run.
    pub cycles_total: Option<u64>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Load,
    Waiting,
    Cycles,
}

impl Metric {
    const ALL: [Self; 3] = [Self::Load, Self::Waiting, Self::Cycles];

    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Waiting => "waiting",
            Self::Cycles => "cycles",
        }
    }

    /// What one process should have of it, where nothing else is said.
    fn target(self) -> Option<f64> {
        match self {
            Self::Load => Some(0.7),
            Self::Waiting => Some(4.0),
            Self::Cycles => None,
        }
    }
}

/// What was seen lately, the oldest first.
#[derive(Debug, Default)]
struct Looks(VecDeque<(Instant, Work)>);

impl Looks {
    fn add(&mut self, now: Instant, work: Work) {
        if self.0.len() >= LOOKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, work));
    }

    /// The mean of something over all looks.
    fn mean(&self, of: impl Fn(&Work) -> f64) -> f64 {
        let sum: f64 = self.0.iter().map(|(_, work)| of(work)).sum();
        sum / self.0.len().max(1) as f64
    }

    /// None where there is no such thing.
    fn value(&self, metric: Metric) -> Option<f64> {
        let is_of_runner = self.0.back().is_none_or(|(_, work)| work.cycles_total.is_some());
        match metric {
            Metric::Load => {
                Some(self.mean(|work| (work.waiting + work.busy) as f64 / work.workers_max.max(1) as f64))
            }
            Metric::Waiting => Some(self.mean(|work| work.waiting as f64)),
            Metric::Cycles => is_of_runner.then(|| self.cycles_per_second()),
        }
    }

    fn cycles_per_second(&self) -> f64 {
        let (Some((since, first)), Some((now, last))) = (self.0.front(), self.0.back()) else { return 0.0 };
        let seconds = now.saturating_duration_since(*since).as_secs_f64();
        let cycles = last.cycles_total.unwrap_or(0).saturating_sub(first.cycles_total.unwrap_or(0));
        if seconds > 0.0 { cycles as f64 / seconds } else { 0.0 }
    }

    fn is_active(&self) -> bool {
        self.0.iter().any(|(_, work)| work.waiting + work.busy > 0) || self.cycles_per_second() > 0.0
    }
}

/// The gRPC face of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ScalerService(Arc<Mutex<Looks>>);

impl ScalerService {
    /// Looks at the process by `read`, four times a second for as long as the runtime lives. Call it within
    /// the runtime.
    #[must_use]
    pub fn watch(read: impl Fn() -> Work + Send + 'static) -> Self {
        let service = Self(Arc::default());
        let looks = Arc::downgrade(&service.0);
        tokio::spawn(async move {
            let mut ticks = interval(STEP);
            loop {
                ticks.tick().await;
                let Some(looks) = looks.upgrade() else { return };
                let work = read();
                looks.lock().unwrap_or_else(PoisonError::into_inner).add(Instant::now(), work);
            }
        });
        service
    }

    fn read<T>(&self, of: impl FnOnce(&Looks) -> T) -> T {
        of(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The metric that `asked` wants, its target and its value.
    fn find(&self, asked: &keda::ScaledObjectRef) -> Result<(Metric, f64, f64), Fault> {
        let word = |key: &str| asked.scaler_metadata.get(key).map(String::as_str);
        let name = word("metric").unwrap_or(Metric::Load.name());
        let known = Metric::ALL.into_iter().find(|metric| metric.name() == name);
        let found = known.and_then(|metric| Some((metric, self.read(|looks| looks.value(metric))?)));
        let (metric, value) =
            found.ok_or_else(|| invalid("metric", format!("{name:?} is not measured here")))?;
        let target = match word("target") {
            Some(text) => text.parse().ok().filter(|target: &f64| target.is_finite() && *target > 0.0),
            None => metric.target(),
        };
        let target = target.ok_or_else(|| invalid("target", "must be a number above 0".to_owned()))?;
        Ok((metric, target, value))
    }
}

fn invalid(key: &'static str, problem: String) -> Fault {
    Fault::invalid("REQUEST_INVALID", format!("scalerMetadata.{key}: {problem}"))
        .violation("scalerMetadata", format!("{key}: {problem}"))
}

#[allow(clippy::cast_possible_truncation, reason = "a number that is too large is the largest")]
fn rounded(value: f64) -> i64 {
    value.ceil() as i64
}

#[async_trait]
impl external_scaler_server::ExternalScaler for ScalerService {
    async fn is_active(
        &self,
        request: Request<keda::ScaledObjectRef>,
    ) -> Result<Response<keda::IsActiveResponse>, Status> {
        self.find(request.get_ref())?;
        Ok(Response::new(keda::IsActiveResponse { result: self.read(Looks::is_active) }))
    }

    type StreamIsActiveStream = ReceiverStream<Result<keda::IsActiveResponse, Status>>;

    async fn stream_is_active(
        &self,
        request: Request<keda::ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        self.find(request.get_ref())?;
        let (sender, receiver) = mpsc::channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            let (mut ticks, mut told) = (interval(STEP), None);
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    _ = ticks.tick() => {}
                }
                let result = service.read(Looks::is_active);
                let is_news = told.replace(result) != Some(result);
                if is_news && sender.send(Ok(keda::IsActiveResponse { result })).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_metric_spec(
        &self,
        request: Request<keda::ScaledObjectRef>,
    ) -> Result<Response<keda::GetMetricSpecResponse>, Status> {
        let (metric, target, _) = self.find(request.get_ref())?;
        let spec = keda::MetricSpec {
            metric_name: metric.name().to_owned(),
            target_size: rounded(target),
            target_size_float: target,
        };
        Ok(Response::new(keda::GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<keda::GetMetricsRequest>,
    ) -> Result<Response<keda::GetMetricsResponse>, Status> {
        let asked = request.into_inner().scaled_object_ref.unwrap_or_default();
        let (metric, _, value) = self.find(&asked)?;
        let value = keda::MetricValue {
            metric_name: metric.name().to_owned(),
            metric_value: rounded(value),
            metric_value_float: value,
        };
        Ok(Response::new(keda::GetMetricsResponse { metric_values: vec![value] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(works: &[(u64, u64, u64)]) -> Looks {
        let (mut looks, start) = (Looks::default(), Instant::now());
        for (number, &(waiting, busy, cycles)) in works.iter().enumerate() {
            let work = Work { waiting, busy, workers_max: 4, cycles_total: Some(cycles) };
            looks.add(start + Duration::from_secs(number as u64), work);
        }
        looks
    }

    #[test]
    fn values_are_means_over_what_was_seen() {
        let looks = looks(&[(0, 2, 1_000), (4, 4, 5_000), (2, 4, 9_000)]);
        let values = Metric::ALL.map(|metric| looks.value(metric).unwrap());
        assert_eq!(values, [16.0 / 12.0, 2.0, 4_000.0]);
        assert!(looks.is_active());
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut works = vec![(9, 4, 0)];
        works.extend([(0, 0, 0); LOOKS_MAX]);
        let looks = looks(&works);
        assert!(!looks.is_active());
        assert_eq!(Metric::ALL.map(|metric| looks.value(metric)), [Some(0.0); 3]);
    }

    #[test]
    fn runs_between_two_looks_are_work_too() {
        assert!(looks(&[(0, 0, 10), (0, 0, 11)]).is_active());
        assert!(!looks(&[(0, 0, 11), (0, 0, 11)]).is_active());
        assert!(!Looks::default().is_active());
    }

    #[test]
    fn compilers_have_no_cycles() {
        let mut looks = Looks::default();
        looks.add(Instant::now(), Work { workers_max: 1, ..Work::default() });
        assert_eq!((looks.value(Metric::Cycles), looks.value(Metric::Load)), (None, Some(0.0)));
    }
}
