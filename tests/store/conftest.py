"""Every test that takes `flavour` runs over a real Redis and over a real Valkey."""

import pytest

from tests.engines import FLAVOURS, Flavour


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value
