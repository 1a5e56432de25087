"""A neighbour of ours in the same Prometheus: another team's service with families of the same names, under the same job where annotations are
scraped. What panels tell must be of us alone.
"""

import scraping

# Ours is well and answered a call; another team's service, under the same job where annotations are scraped, is away.
NEIGHBOURS = {
    "up": ("1", "0"),
    "process_threads": ("7", "7"),
    'rpc_server_call_duration_seconds_count{rpc_method="antares.v1.RunnerService/Execute", rpc_response_status_code="OK"}': ("0+15x240", None),
    'rpc_server_call_duration_seconds_count{rpc_method="shop.v1.Orders/List", rpc_response_status_code="INTERNAL"}': (None, "0+15x240"),
    "antares_build_info": ("1", None),
    'antares_serving{service="antares.v1.RunnerService"}': ("1", None),
}
# What panels tell then.
SEEN_OF_NEIGHBOURS = {
    "Processes away": ("{}", 0),
    "Threads": ('{instance="i"}', 7),
    "Server errors": ("{}", 0),
    "Calls by method": ('{rpc_method="antares.v1.RunnerService/Execute"}', 1),
    "Calls without a fault, 30 days": ("{}", 1),
}


def inputs_of(target):
    """Series of us (instance `i`) and of the neighbour (`j`) with the labels of a way of scraping."""
    for name, both in NEIGHBOURS.items():
        family, _, own = name.rstrip("}").partition("{")
        for instance, values in zip("ij", both, strict=True):
            if values:
                text = ", ".join(filter(None, (scraping.as_text(target | {"instance": instance}), own)))
                yield {"series": f"{family}{{{text}}}", "values": values if "x" in values else f"{values}x240"}


def test_of(panels):
    """A test of promtool for expressions by the titles of their panels."""
    expected = [
        {"expr": panels[title], "eval_time": "30m", "exp_samples": [{"labels": labels, "value": value}]}
        for title, (labels, value) in SEEN_OF_NEIGHBOURS.items()
    ]
    cases = [{"interval": "15s", "input_series": list(inputs_of(target)), "promql_expr_test": expected} for target in scraping.WAYS.values()]
    return {"rule_files": [], "evaluation_interval": "1m", "tests": cases}
