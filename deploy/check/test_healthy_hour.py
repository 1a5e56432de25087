"""The simulated hour fires what is wrong, in each way of scraping, and nothing else."""

import unittest

import healthy_hour
import scraping

TEXT = """# HELP antares_build_info Version of the running program; always 1.
# TYPE antares_build_info gauge
antares_build_info{version="1"} 1
# TYPE antares_serving gauge
antares_serving{service="antares.v1.RunnerService"} 1
# TYPE antares_workers_busy gauge
antares_workers_busy{role="run"} {busy}
# TYPE antares_workers_max gauge
antares_workers_max{role="run"} 2
# TYPE antares_executions_total counter
antares_executions_total{outcome="exit"} {runs}
# TYPE antares_sandbox_violations_total counter
antares_sandbox_violations_total{role="run"} {violations}
# TYPE antares_overhead_seconds histogram
antares_overhead_seconds_bucket{le="0.05"} {runs}
antares_overhead_seconds_bucket{le="+Inf"} {runs}
antares_overhead_seconds_sum 0.5
antares_overhead_seconds_count {runs}
"""


def looks(busy=(0, 2, 1), violations=(3, 3, 3)):
    """What three looks at /metrics found."""
    texts = []
    for number in range(3):
        values = {"{busy}": busy[number], "{runs}": 10 * number, "{violations}": violations[number]}
        text = TEXT
        for place, value in values.items():
            text = text.replace(place, str(value))
        texts.append(healthy_hour.snapshot_of(text))
    return texts


class Hour(unittest.TestCase):
    def test_series_go_on_as_they_were(self):
        series = healthy_hour.hour_of(looks())
        runs = series[("antares_executions_total", 'outcome="exit"')]
        self.assertEqual((runs[0], runs[1], runs[240]), (0, 150, 240 * 150))
        self.assertEqual(series[("antares_workers_busy", 'role="run"')][:5], [0, 2, 1, 0, 2])
        self.assertEqual(series[("antares_overhead_seconds_count", "")][2], 300)

    def test_a_healthy_hour_fires_nothing(self):
        self.assertEqual(healthy_hour.check_hour(looks()), [])

    def test_what_is_wrong_is_found_in_each_way_of_scraping(self):
        for wrong, alert in (
            ({"violations": (3, 3, 4)}, "AntaresSandboxViolation"),
            ({"busy": (2, 2, 2)}, "AntaresWorkersSaturated"),
        ):
            self.assertEqual(healthy_hour.check_hour(looks(**wrong)), [(way, alert) for way in scraping.WAYS])

    def test_nothing_seen_is_no_health(self):
        with self.assertRaises(SystemExit):
            healthy_hour.check_hour([])


if __name__ == "__main__":
    unittest.main()
