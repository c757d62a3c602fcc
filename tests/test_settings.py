"""Precedence, sources, and every refusal of a setting."""

from pathlib import Path
from typing import Any

import pytest

from gateway.core.limits import Limits
from gateway.settings import Settings, SettingsError, config_path, load_settings, socket_url

SECRET = "hunter2-never-told"


def load(tmp_path: Path, toml: str | None = None, **arguments: Any) -> Settings:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nowhere"}
    if toml is not None:
        path = config_path(environ)
        path.parent.mkdir(exist_ok=True)
        path.write_text(toml)
    return load_settings(arguments, environ=environ)


def refused(tmp_path: Path, toml: str | None = None, **arguments: Any) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, toml, **arguments)
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith(f"{caught.value.setting}: ")
    return caught.value


def test_defaults_without_file_and_arguments(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()
    assert Settings().limits == Limits()


def test_argument_over_file_over_default(tmp_path: Path) -> None:
    toml = 'port = 1000\nhost = "::1"\norigins = ["https://a.example"]\n[limits]\nwindowRecords = 50\n'
    settings = load(tmp_path, toml, port=2000, host=None)
    assert (settings.port, settings.host, settings.origins) == (2000, "::1", ("https://a.example",))
    assert settings.limits == Limits(window_records=50)


@pytest.mark.parametrize("name", ["db", "url"])
def test_the_source_of_an_address_is_the_layer_that_named_it(tmp_path: Path, name: str) -> None:
    address = {"db": "redis://a:1/0", "url": "ws://a:1"}[name]
    assert getattr(load(tmp_path), f"{name}_source") == "default"
    assert getattr(load(tmp_path, f'{name} = ""'), f"{name}_source") == "default"
    assert getattr(load(tmp_path, f'{name} = "{address}"'), f"{name}_source") == "xdg"
    assert getattr(load(tmp_path, f'{name} = "{address}"', **{name: address}), f"{name}_source") == "argv"


def test_config_names_another_file_which_must_exist(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("port = 3000")
    assert load(tmp_path, "port = 1000", config=str(other)).port == 3000
    assert refused(tmp_path, config=str(tmp_path / "missing.toml")).setting == "config"


def test_the_file_stands_where_xdg_says() -> None:
    assert config_path({"HOME": "/h"}) == Path("/h/.config/context-gateway/config.toml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/context-gateway/config.toml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "x"}) == Path("/h/.config/context-gateway/config.toml")


@pytest.mark.parametrize(
    ("toml", "setting"),
    [
        ("prot = 1", "prot"),
        ('port = "1"', "port"),
        ("port = true", "port"),
        ("port = -1", "port"),
        ("port = 65536", "port"),
        ("host = 1", "host"),
        ('host = "0.0.0.0"', "host"),
        ('host = "example.org"', "host"),
        ("workers = 2", "workers"),
        ("workers = true", "workers"),
        ('auth = "jwt"', "auth"),
        ('jwt_key = "f"', "jwt_key"),
        ('jwks = "f"', "jwks"),
        ('token_file = "f"', "token_file"),
        ('db_password_file = "f"', "db_password_file"),
        ('db = "redis+sentinel://h1:26379,h2:26379/service"', "db"),
        ('db = "redis+cluster://h1,h2"', "db"),
        ('origins = "https://a"', "origins"),
        ('origins = ["https://a/path"]', "origins"),
        ("origins = [1]", "origins"),
        ('ready_file = "f"', "ready_file"),
        ('config = "f"', "config"),
        ('store_label = "s"', "store_label"),
        ('host = "a\\u0007"', "host"),
        ("limits = 1", "limits"),
        ("[limits]\nwindowrecords = 1", "limits.windowrecords"),
        ("[limits]\nwindowRecords = 0", "limits.windowRecords"),
        ("[limits]\nwindowRecords = 1.0", "limits.windowRecords"),
        ("[limits]\nwindowRecords = true", "limits.windowRecords"),
        ("[limits]\nwindowRecords = 4", "limits.windowDefault"),
        ('db = "mysql://a"', "db"),
        ('db = "redis://"', "db"),
        ('db = "redis:a"', "db"),
        ('db = "embedded:dir"', "db"),
        ('db = "unix://host/x"', "db"),
        ('db = "redis://a:b/0"', "db"),
        (f'db = "redis://:{SECRET}@a:1/0"', "db"),
        (f'db = "redis://a:1/0?password={SECRET}"', "db"),
        ('url = "ftp://a"', "url"),
        ('url = "ws://"', "url"),
        (f'url = "ws://a?token={SECRET}"', "url"),
        (f'url = "ws://{SECRET}@a"', "url"),
        (f"{SECRET} =", "config"),
        (f'a = "{SECRET}"\nb', "config"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(tmp_path: Path, toml: str, setting: str) -> None:
    assert refused(tmp_path, toml).setting == setting


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b'host = "\xff"')
    assert refused(tmp_path, config=path).setting == "config"
    path.write_bytes(b"#" * 70_000)
    assert "65536" in str(refused(tmp_path, config=path))
    assert refused(tmp_path, config=tmp_path).setting == "config"


@pytest.mark.parametrize(
    "db",
    [
        "redis://10.0.0.5:6379/0",
        "rediss://user@h/1",
        "unix:///run/redis.sock",
        "embedded:",
        "embedded:/var/lib/board",
    ],
)
def test_every_form_of_a_store_address_is_taken(tmp_path: Path, db: str) -> None:
    assert load(tmp_path, db=db).db == db


def test_addresses_of_a_browser_mean_the_web_socket(tmp_path: Path) -> None:
    assert load(tmp_path, url="http://127.0.0.1:8787/").url == "ws://127.0.0.1:8787/"
    assert load(tmp_path, url="https://board.example").url == "wss://board.example"
    assert socket_url("ws://127.0.0.1:8787/") == socket_url("ws://127.0.0.1:8787") == "ws://127.0.0.1:8787/v1/ws"
    assert socket_url("wss://h/gateway/v1/ws") == "wss://h/gateway/v1/ws"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_hosts_are_served_without_authentication(tmp_path: Path, host: str) -> None:
    assert load(tmp_path, host=host).host == host
