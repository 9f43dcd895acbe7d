"""Limits: how long a request may be, and how many may come from one address and with one link."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second on average, and so many at once."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Generous for people, who answer once a second at most, and for a class of them behind one address."""

    body_bytes: int = 8_192
    token: Rate = Rate(20.0, 60)
    address: Rate = Rate(400.0, 1_200)


class Buckets:
    """A token bucket for each name; the one that was quiet for longest is forgotten when there are too many."""

    MOST = 10_000

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._turn = threading.Lock()

    def wait(self, name: str) -> float:
        """Take one request from a bucket; seconds until there is one again, 0 where there was."""
        with self._turn:
            now = self.clock()
            level, last = self._levels.pop(name, (float(self.rate.burst), now))
            level = min(level + (now - last) * self.rate.per_second, float(self.rate.burst))
            allowed = level >= 1
            self._levels[name] = (level - 1 if allowed else level, now)
            if len(self._levels) > self.MOST:
                self._levels.popitem(last=False)
        return 0.0 if allowed else (1 - level) / self.rate.per_second


def too_many(wait: float) -> Response:
    """The answer to one request too many: when to come again."""
    return JSONResponse({"detail": "Too many requests: wait a moment."}, 429, {"Retry-After": str(int(wait) + 1)})


class RateLimit:
    """Answers 429 to an address that asks too often."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.buckets = Buckets(limits.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say when to come again."""
        client = scope.get("client") or ("",)
        wait = self.buckets.wait(str(client[0])) if scope["type"] == "http" else 0.0
        await (too_many(wait) if wait else self.app)(scope, receive, send)


class SizeLimit:
    """Answers 413 to a body that is too long, whether it says so beforehand or not."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.most = limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a reader that counts."""
        seen = 0

        async def count() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.most:
                raise HTTPException(413, f"The body is longer than {self.most} bytes.")
            return message

        await self.app(scope, count, send)
