"""The limits of protocol §10: every bound with its unit and what happens at it.

One frozen object for a whole deployment; `hello` tells it, `wire()` gives the form of the wire. The suffix of a name
is its unit: `…_bytes` UTF-8 bytes of our own text, `…_chars` code points, `…_ms` milliseconds; no suffix: a count.

Policy at a bound: over a rate, `requestsInFlight` or `invocations` → `rate_limited`; a message too large → close 1009;
a peer that does not drain → `invalidated` (`behind`), then close 4001; over any other → `limit_exceeded`. Nothing is clamped.
"""

from typing import Any

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The numbers of protocol §10 with their defaults; every one is at least 1."""

    window_records: int = 100
    window_default: int = 8
    record_ids: int = 200
    records: int = 100_000
    regions: int = 100
    capabilities: int = 200
    capability_bytes: int = 65_536
    schema_nodes: int = 2_000
    fields_per_record: int = 64
    field_chars: int = 4_096
    field_bytes: int = 16_384
    record_bytes: int = 65_536
    text_chars: int = 1_024
    state_bytes: int = 16_384
    feedback: int = 50
    unavailable: int = 200
    depth: int = 32
    message_bytes: int = 1_048_576
    publish_bytes: int = 4_194_304
    response_bytes: int = 262_144
    after_bytes: int = 65_536
    after_moves: int = 32
    knob_keys: int = 64
    query_chars: int = 256
    find_k: int = 50
    find_ms: int = 1_000
    sessions_page: int = 100
    sessions_per_principal: int = 1_000
    connections: int = 10_000
    views_per_connection: int = 64
    views_per_session: int = 1_000
    requests_in_flight: int = 64
    requests_per_second: int = 100
    outbox_bytes: int = 1_048_576
    outbox_deadline_ms: int = 10_000
    hello_ms: int = 5_000
    ping_interval_ms: int = 20_000
    ping_timeout_ms: int = 20_000
    lease_ms: int = 10_000
    publisher_grace_ms: int = 10_000
    push_min_ms: int = 50
    stale_read_ms: int = 60_000
    drain_ms: int = 20_000
    history_revisions: int = 1_000
    history_bytes: int = 8_388_608
    history_ms: int = 300_000
    session_ttl_ms: int = 86_400_000
    invocations: int = 64
    invoke_timeout_ms: int = 30_000
    invoke_timeout_max_ms: int = 300_000
    argument_bytes: int = 65_536
    result_bytes: int = 65_536
    confirm_ms: int = 120_000
    outcome_ms: int = 300_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"limit {name} must be at least 1")

    def peer_bytes(self) -> int:
        """The most one peer's traffic may hold in this process, in bytes (law 4: memory of a peer ≤ sum of its caps).

        In: a message queued, one being taken, and those in flight, which stop the reading above `publishBytes` and may
        pass it by one message. Out: the outbox, once over for replies, which are never dropped but begin only while there
        is room. What a view keeps is shared with the session's other watchers.
        """
        return 4 * self.publish_bytes + 2 * self.outbox_bytes

    def wire(self) -> dict[str, Any]:
        """The limits under their wire names, in the order of protocol §10."""
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return wire


# Bounds that are part of the protocol's text and not configurable.
ID_CHARS = 200  # §1: ids of sessions, records, regions, capabilities, feedback
REQUEST_ID_BYTES = 62  # §2: a text id, as JSON with its quotes
REVISION_MAX = 2**53 - 1  # §1
INTEGER_DIGITS = 309  # §2: digits of an integer in a free member
RECORDS_ASKED = 20  # §4: ids in one `record`
SCOPE_TEXTS = 16  # §6
SESSIONS_TOLD = 50  # §4: sessions in one answer where the caller names no limit
DROPPED_TOLD = 64  # §6: entries of `dropped`
WRITE_RATE = (1_000, 2_000)  # §10: `publish` and `patch` a second, and burst
PING_RATE = (10, 20)  # §10: `ping` a second, and burst
BURST = 2  # §10: burst = 2 × rate
