"""The async Python client of a context gateway (protocol `context.v1`). It knows nothing of the gateway's inside.

    async with connect("ws://127.0.0.1:8787") as client:
        board = await client.describe("departures", limit=100)
        async with client.subscribe("departures", limit=100) as view:
            async for event in view:
                match event:
                    case After() | Described():
                        show(event.now)         # the replica, brought forward
                    case Invalidated(reasons=reasons):
                        ...                     # a Described follows by itself

Every connection that breaks is opened again; see `Client`, `Subscription` and, for who owns a session, `Publisher`.
"""

from gateway.client.backoff import ASKED_MAX_S, BACK_OFF_MAX_S, BACK_OFF_MIN_S, STABLE_S, BackOff
from gateway.client.calls import Base, Client, connect
from gateway.client.connection import (
    PROTOCOL,
    QUEUE_BYTES,
    QUEUE_ITEMS,
    Connection,
    Notification,
    open_connection,
)
from gateway.client.difference import difference
from gateway.client.errors import ABNORMAL, FAILURES, SILENT, TOO_SLOW, ConnectionLost
from gateway.client.publisher import OnConflict, Publisher
from gateway.client.replica import Unfit, apply_after
from gateway.client.results import (
    After,
    Described,
    DescribeResponse,
    Ended,
    Event,
    Goodbye,
    Invalidated,
    Listed,
    Published,
    Reason,
    Unchanged,
)
from gateway.client.watching import Subscription, watch
from gateway.core.errors import GatewayError
from gateway.core.position import Position

__all__ = [
    "ABNORMAL",
    "ASKED_MAX_S",
    "BACK_OFF_MAX_S",
    "BACK_OFF_MIN_S",
    "FAILURES",
    "PROTOCOL",
    "QUEUE_BYTES",
    "QUEUE_ITEMS",
    "SILENT",
    "STABLE_S",
    "TOO_SLOW",
    "After",
    "BackOff",
    "Base",
    "Client",
    "Connection",
    "ConnectionLost",
    "DescribeResponse",
    "Described",
    "Ended",
    "Event",
    "GatewayError",
    "Goodbye",
    "Invalidated",
    "Listed",
    "Notification",
    "OnConflict",
    "Position",
    "Published",
    "Publisher",
    "Reason",
    "Subscription",
    "Unchanged",
    "Unfit",
    "apply_after",
    "connect",
    "difference",
    "open_connection",
    "watch",
]
