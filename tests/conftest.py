"""Profiles of the property tests; the seed of a run is printed, `make test SEED=…` repeats it."""

import os
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("CG_EXAMPLES", "500"))
"""Examples of each property: 500 in `make test`, 20 000 in `make soak`."""

FAULTS = (
    "test_hub.py",
    "test_outages.py",
    "test_repeats.py",
    "test_storm.py",
    "test_cuts.py",
    "test_scenarios.py",
    "test_sessions_moved.py",
    "test_trouble.py",
    "test_embedded.py",
)
"""Modules about what goes wrong: links cut, stores restarted, emptied and out of reach, owners killed."""

settings.register_profile(
    "test",
    max_examples=EXAMPLES,
    deadline=None,  # two busy cores: a slow example is no failure
    print_blob=True,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("test")


def pytest_report_header(config: pytest.Config) -> str:
    """The line at the top of every run."""
    return f"property tests: {EXAMPLES} examples each, seed {config.getoption('--hypothesis-seed') or 'random'}"


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark what the tiers of the Makefile choose by."""
    for item in items:
        if hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker("property")
        if item.path.name in FAULTS or item.path.parent.name == "faults":
            item.add_marker("faults")
