from typing import Any

from gateway.core.limits import Limits


def check_arguments(schema: Any, limits: Limits, path: str) -> None: ...
