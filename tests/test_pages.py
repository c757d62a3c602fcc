"""Who may ask, and the pages: names, origins, statuses."""

import http

import pytest

from gateway import pages
from gateway.metrics import Metrics


@pytest.mark.parametrize(
    ("header", "loopback"),
    [
        ("localhost", True),
        ("LOCALHOST:8787", True),
        ("127.0.0.1", True),
        ("127.0.0.1:1", True),
        ("127.8.9.1:65535", True),
        ("[::1]", True),
        ("[::1]:8787", True),
        ("", False),
        (":8787", False),
        ("::1", False),
        ("10.0.0.1:8787", False),
        ("0.0.0.0", False),
        ("[::]", False),
        ("localhost.evil.test", False),
        ("evil.localhost.test:8787", False),
        ("127.0.0.1.evil.test", False),
        ("localhost:8787:8787", False),
        ("localhost@evil.test", False),
        ("2130706433", False),
        ("0x7f.1", False),
    ],
)
def test_a_host_header_names_a_loopback_address(header: str, loopback: bool) -> None:
    assert pages.is_loopback(pages.host_name(header)) is loopback


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("https://app.example.com", "https://app.example.com"),
        ("HTTPS://APP.EXAMPLE.COM", "https://app.example.com"),
        ("https://app.example.com:443", "https://app.example.com"),
        ("https://app.example.com:8443", "https://app.example.com:8443"),
        ("http://app.example.com:80", "http://app.example.com"),
        ("http://[::1]:80", "http://[::1]"),
        ("null", "null"),
        ("NULL", None),
        ("", None),
        ("app.example.com", None),
        ("https://", None),
        ("https://user@app.example.com", None),
        ("https://app.example.com/", None),
        ("https://app.example.com?", None),
        ("https://app.example.com#", None),
        ("https://app.exam\tple.com", None),
        ("https://app.example.com https://evil.test", None),
        ("https://app.example.com:99999", None),
        ("https://app.example.com:x", None),
        ("https://[::1", None),
    ],
)
def test_origins_have_one_spelling(text: str, spelt: str | None) -> None:
    assert pages.origin(text) == spelt


def test_the_pages_of_the_listening_addresses_are_origins() -> None:
    found = pages.origins_of([("127.0.0.1", 8787), ("::1", 80)])
    assert found >= {"http://127.0.0.1:8787", "http://localhost:8787", "http://[::1]:8787", "http://[::1]"}
    assert pages.origins_of([("192.0.2.1", 8787)]) == {"http://192.0.2.1:8787"}


def test_pages() -> None:
    metrics = Metrics()
    schemas = {"describe.json": b"{}"}

    def asked(path: str, *, ready: bool = True) -> tuple[int, bytes]:
        page = pages.page(path, ready, metrics, schemas)
        assert page.headers["Content-Length"] == str(len(page.body))
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        return page.status_code, bytes(page.body)

    assert asked("/healthz", ready=False) == (200, b"ok\n")
    assert asked("/readyz") == (200, b"ready\n")
    assert asked("/readyz", ready=False) == (503, b"not ready\n")
    assert asked("/v1/schemas") == asked("/v1/schemas/") == (200, b"/v1/schemas/describe.json\n")
    assert asked("/v1/schemas/describe.json") == (200, b"{}")
    assert asked("/")[0] == 200
    assert b"gateway_connections" in asked("/metrics")[1]
    for path in ("/v1/schemas/../pages.py", "/v1/schemas/none", "/healthz/", "/v1/ws/", "//", "", "*"):
        assert asked(path)[0] == 404


def test_head_is_get_without_its_body() -> None:
    page = pages.page("/healthz", True, Metrics(), {})
    head = pages.head_of(page)
    assert (head.status_code, head.headers, head.body) == (page.status_code, page.headers, b"")


def test_another_method_is_told_which_are_taken() -> None:
    page = pages.response(http.HTTPStatus.METHOD_NOT_ALLOWED, "no")
    assert page.headers["Allow"] == "GET, HEAD"
