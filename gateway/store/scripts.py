"""The Lua scripts, each with the prelude in front, and one call of one of them."""

import hashlib
import secrets
from base64 import b32encode
from importlib.resources import files
from typing import Final

import anyio.lowlevel
import hiredis
import msgspec

PACKED_AT_ONCE: Final = 8_000  # words: about 2 ms

Argument = bytes | str | int


class Script(msgspec.Struct, frozen=True):
    """A script as it is sent: by its hash, or whole where the store does not know it yet."""

    body: bytes
    sha: bytes


def _load(name: str) -> Script:
    folder = files("gateway.store") / "lua"
    body = (folder / "prelude.lua").read_bytes() + b"\n" + (folder / f"{name}.lua").read_bytes()
    return Script(body, hashlib.sha1(body, usedforsecurity=False).hexdigest().encode())


COMMIT = _load("commit")
READ = _load("read")
SLICE = _load("slice")
LOG = _load("log")
CHECK = _load("check")
END = _load("end")


class Call(msgspec.Struct, frozen=True):
    """One script on one session's keys."""

    script: Script
    keys: tuple[bytes, ...]
    args: list[Argument]

    def words(self, *, whole: bool) -> list[Argument]:
        """The command; `whole` sends the script itself (EVAL), else its hash (EVALSHA)."""
        head: list[Argument] = ["EVAL", self.script.body] if whole else ["EVALSHA", self.script.sha]
        return [*head, len(self.keys), *self.keys, *self.args]


class Command(msgspec.Struct, frozen=True):
    """One plain command of the store."""

    args: tuple[Argument, ...]

    def words(self, *, whole: bool) -> list[Argument]:
        """The command."""
        return list(self.args)


def packed(*words: Argument) -> bytes:
    """A command's bytes in the store's protocol."""
    data: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub means a tuple of any length
    return data


async def packed_in_slices(words: list[Argument]) -> list[bytes]:
    """As `packed`, giving way to the loop now and then: a publish of 4 MiB has some hundred thousand words."""
    if len(words) <= PACKED_AT_ONCE:
        return [packed(*words)]
    parts = [b"*%d\r\n" % len(words)]
    for start in range(0, len(words), PACKED_AT_ONCE):
        some = packed(*words[start : start + PACKED_AT_ONCE])
        parts.append(some[some.index(b"\n") + 1 :])  # without the count of its own
        await anyio.lowlevel.checkpoint()
    return parts


def new_epoch() -> str:
    """80 random bits: no position ever names two histories (protocol §6.2)."""
    return b32encode(secrets.token_bytes(10)).decode().lower()
