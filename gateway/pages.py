"""What the gateway answers over plain HTTP on its port (protocol §2): health, metrics, schemas, and who may ask at all."""

import http
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Response

from gateway import __version__
from gateway.metrics import Metrics

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/schema+json"
SCHEMAS: Final = "/v1/schemas/"
METHODS: Final = ("GET", "HEAD")
ORIGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+", re.ASCII)
DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def response(status: http.HTTPStatus, body: str | bytes, content_type: str = TEXT) -> Response:
    """A whole response; nothing of it is cached, sniffed or framed."""
    data = body.encode() if isinstance(body, str) else body
    headers = Headers(
        [
            ("Content-Type", content_type),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
            ("Connection", "close"),
        ]
    )
    if status is http.HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(METHODS)
    return Response(status.value, status.phrase, headers, data)


def head_of(page: Response) -> Response:
    """What HEAD answers: the same without its body (RFC 9110 §9.3.2)."""
    return Response(page.status_code, page.reason_phrase, page.headers, b"")


def page(path: str, ready: bool, metrics: Metrics, schemas: Mapping[str, bytes]) -> Response:
    """The page at `path`; 404 where there is none."""
    ok = http.HTTPStatus.OK
    if path == "/healthz":
        return response(ok, "ok\n")
    if path == "/readyz":
        return response(ok, "ready\n") if ready else response(http.HTTPStatus.SERVICE_UNAVAILABLE, "not ready\n")
    if path == "/metrics":
        return response(ok, generate_latest(metrics.registry), CONTENT_TYPE_LATEST)
    if path.rstrip("/") == SCHEMAS.rstrip("/"):
        return response(ok, "".join(f"{SCHEMAS}{name}\n" for name in sorted(schemas)))
    if path.startswith(SCHEMAS) and path.removeprefix(SCHEMAS) in schemas:
        return response(ok, schemas[path.removeprefix(SCHEMAS)], JSON)
    if path == "/":
        return response(ok, f"context-gateway {__version__}\n\nWebSocket: /v1/ws (context.v1)\nSchemas: {SCHEMAS}\n")
    return response(http.HTTPStatus.NOT_FOUND, "There is no such page.\n")


def is_loopback(name: str) -> bool:
    """Whether a host name, without port, is `localhost` or a loopback address."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name in a `Host` header, its port apart (RFC 9110 §7.2)."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.rpartition(":")[0] if ":" in header else header


def origin(text: str) -> str | None:
    """An origin in one spelling: lower case, the scheme's own port left out; None where it is none (RFC 6454 §6.1)."""
    if text == "null":
        return text
    if not ORIGIN.fullmatch(text):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = parts.scheme.lower()
    shown = "" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}"
    return f"{scheme}://{host}{shown}"


def origins_of(addresses: Iterable[tuple[str, int]]) -> set[str]:
    """The origins of pages the listening addresses serve; a loopback address also answers as its other names."""
    found: set[str] = set()
    for host, port in addresses:
        names = {"localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else set()
        names.add(f"[{host}]" if ":" in host else host)
        found |= {text for name in names if (text := origin(f"http://{name}:{port}")) is not None}
    return found
