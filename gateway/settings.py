"""Settings of a process: defaults, over them the file, over it the arguments. Read once, at the start.

The file is `$XDG_CONFIG_HOME/context-gateway/config.toml` (`~/.config/…` without that variable) or the one `--config`
names. Its keys are the names of `Settings`' members, with a table `[limits]` under the wire names of protocol §10. A key
that is not served, or a bad value, is a `SettingsError` that names the setting and never the value.

No secret stands in an address: one inside it is refused.
"""

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from gateway.core.limits import Limits

Source: TypeAlias = Literal["argv", "xdg", "default"]
"""Which layer supplied an address: `db_path_source` of the surface."""

URL_DEFAULT: Final = "ws://127.0.0.1:8787"
WS_PATH: Final = "/v1/ws"  # protocol §2
CONFIG_BYTES: Final = 65_536  # of the file; it holds settings, not data
STORE_SCHEMES: Final = ("redis", "rediss", "unix", "embedded")
STORE_FORMS_LATER: Final = ("redis+sentinel:", "redis+cluster:")
LATER: Final = {
    "workers": "One worker per process is served so far.",
    "auth": "Only auth none is served so far, on a loopback address.",
    "jwt_key": "Tokens are not served yet.",
    "jwks": "Tokens are not served yet.",
    "token_file": "Tokens are not served yet.",
    "db_password_file": "A store with a password is not served yet.",
    "store_label": "It is for peers that may not see the store's address; so far every peer is local and may.",
}
"""Settings of cli.md that are refused, never taken and ignored, until they are served."""


class SettingsError(Exception):
    """A setting is unknown, refused or has a bad value. `setting`: its name; the message never holds the value."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process was started with.

    Attributes:
        host, port: the address `serve` and `demo` listen on; port 0 takes a free one.
        db, db_source: the store's address and the layer that named it.
        url, url_source: the gateway that commands talk to, and the layer that named it.
        auth, workers: `none` and 1; anything else is refused so far.
        origins: what `Origin` may be beside the listening addresses.
        limits: protocol §10.
        ready_file: written once the gateway listens; an argument only.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    db: str = "embedded:"
    db_source: Source = "default"
    url: str = URL_DEFAULT
    url_source: Source = "default"
    auth: Literal["none"] = "none"
    workers: int = 1
    origins: tuple[str, ...] = ()
    limits: Limits = Limits()
    ready_file: Path | None = None


def config_path(environ: Mapping[str, str]) -> Path:
    """Where the file stands by the XDG base directory specification; a relative `XDG_CONFIG_HOME` counts as unset."""
    named = environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if Path(named).is_absolute() else Path(environ.get("HOME") or Path.home()) / ".config"
    return base / "context-gateway" / "config.toml"


def load_settings(arguments: Mapping[str, Any], *, environ: Mapping[str, str]) -> Settings:
    """The settings of this process.

    Args:
        arguments: by setting; None is "not given". `config` names a file that must then exist.
        environ: for `XDG_CONFIG_HOME` and `HOME`.

    Raises:
        SettingsError: see there.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    named = given.pop("config", None)
    path = Path(named) if named is not None else config_path(environ)
    layers: list[tuple[Source, dict[str, Any]]] = [
        ("xdg", read_file(path, must_exist=named is not None)),
        ("argv", given),
    ]
    values: dict[str, Any] = {}
    for source, layer in layers:
        for name, value in layer.items():
            values[name] = setting(name, value)
            if name in ("db", "url"):
                values[f"{name}_source"] = source
    settings = Settings(**values)
    if not is_loopback(settings.host):
        raise SettingsError("host", "Without authentication only localhost or a loopback address can be served.")
    return settings


def read_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """The file's settings; an empty text counts as unset."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_BYTES + 1)
        if len(content) > CONFIG_BYTES:
            raise SettingsError("config", f"The file is larger than {CONFIG_BYTES} bytes.")
        table = tomllib.loads(content.decode())
    except FileNotFoundError:
        if must_exist:
            raise SettingsError("config", "There is no such file.") from None
        return {}
    except OSError as error:
        raise SettingsError("config", f"The file cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        place = re.search(r"line \d+", str(error))
        raise SettingsError("config", f"The file is not TOML ({place[0] if place else 'UTF-8'}).") from None
    for name in ("ready_file", "config"):
        if name in table:
            raise SettingsError(name, "This is an argument, not a setting of the file.")
    return {name: value for name, value in table.items() if value != ""}


def setting(name: str, value: Any) -> Any:
    """One checked value."""
    if name == "workers" and value == 1 and not isinstance(value, bool):
        return 1
    if name == "auth" and value == "none":
        return value
    if name in LATER:
        raise SettingsError(name, LATER[name])
    if name not in CHECKS:
        raise SettingsError(name, "There is no such setting.")
    return CHECKS[name](name, value)


def refuse(name: str, expected: str) -> NoReturn:
    """A bad value: says what would be right."""
    raise SettingsError(name, f"It must be {expected}.")


def text(name: str, value: Any) -> str:
    """One line that is not empty."""
    if not isinstance(value, str) or not value or re.search(r"[\x00-\x1f\x7f]", value):
        refuse(name, "a text without control characters")
    return value


def port(name: str, value: Any) -> int:
    """0 … 65535; 0 takes a free one."""
    if type(value) is not int or not 0 <= value <= 65_535:
        refuse(name, "a whole number from 0 to 65535")
    return value


def file_path(name: str, value: Any) -> Path:
    """A path, `~` expanded."""
    return Path(text(name, str(value) if isinstance(value, Path) else value)).expanduser()


def origins(name: str, value: Any) -> tuple[str, ...]:
    """Origins as browsers send them: `scheme://host[:port]`, or `null`."""
    if not isinstance(value, list | tuple):
        refuse(name, "a list of texts")
    for origin in value:
        if not isinstance(origin, str) or not re.fullmatch(r"null|[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin):
            refuse(name, "origins of the form scheme://host:port, or null")
    return tuple(value)


def limits(name: str, value: Any) -> Limits:
    """The table `[limits]`: wire names, whole numbers of at least 1."""
    if not isinstance(value, dict):
        refuse(name, "a table")
    known = Limits().wire()
    for key, number in value.items():
        if key not in known:
            raise SettingsError(f"limits.{key}", "There is no such limit.")
        if type(number) is not int or number < 1:
            refuse(f"limits.{key}", "a whole number of at least 1")
    chosen = msgspec.convert(known | value, Limits)
    if chosen.window_default > chosen.window_records:
        refuse("limits.windowDefault", "at most windowRecords")
    return chosen


def split_url(name: str, value: Any, schemes: tuple[str, ...]) -> SplitResult:
    """An address without a secret."""
    try:
        parts = urlsplit(text(name, value))
        password, _ = parts.password, parts.port
    except ValueError:
        refuse(name, f"an address that begins with {' or '.join(schemes)}")
    if parts.scheme not in schemes:
        refuse(name, f"an address that begins with {' or '.join(schemes)}")
    if password is not None or any("password" in key.lower() for key, _ in parse_qsl(parts.query)):
        raise SettingsError(name, "An address holds no secret.")
    return parts


def store_url(name: str, value: Any) -> str:
    """`redis:// rediss:// unix://`, or `embedded:` with an absolute directory or none."""
    if text(name, value).startswith(STORE_FORMS_LATER):
        raise SettingsError(name, "Sentinel and Cluster are not served yet.")
    parts = split_url(name, value, STORE_SCHEMES)
    if parts.scheme == "embedded":
        if parts.netloc or (parts.path and not parts.path.startswith("/")):
            refuse(name, "embedded: or embedded:/directory")
    elif parts.scheme == "unix":
        if parts.netloc or not parts.path.startswith("/"):
            refuse(name, "unix:///path/of/the/socket")
    elif not parts.netloc.rpartition("@")[2]:
        refuse(name, f"{parts.scheme}://host:port/…")
    return text(name, value)


def gateway_url(name: str, value: Any) -> str:
    """`ws://` or `wss://` (`http` and `https` as a browser shows them mean the same), without user, query or fragment."""
    parts = split_url(name, value, ("ws", "wss", "http", "https"))
    if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        refuse(name, "ws://host:port, without user, query or fragment")
    return parts._replace(scheme=parts.scheme.replace("http", "ws")).geturl()


CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "host": text,
    "port": port,
    "db": store_url,
    "url": gateway_url,
    "origins": origins,
    "limits": limits,
    "ready_file": file_path,
}


def is_loopback(host: str) -> bool:
    """`localhost` or a loopback address; names are not resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def socket_url(url: str) -> str:
    """The WebSocket's whole address of a gateway's `url`: without a path of its own it is `/v1/ws`."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") else parts._replace(path=WS_PATH).geturl()
