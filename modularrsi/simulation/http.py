"""One HTTP/1.1 connection of a server: `h11` has the protocol, asyncio the bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11

MAX_BODY = 64 * 1024 * 1024
"""Bytes. A prompt of a million tokens is a tenth of it."""
_MAX_HEAD = 64 * 1024
_READ = 64 * 1024
_MAX_AHEAD = 64 * 1024
"""Bytes that a client may have sent ahead of its next turn; the rest waits in the socket."""
_PAUSE_SEC, _LINGER_SEC = 5.0, 60.0
"""How long a refused client may pause, and may go on sending, before its connection is cut."""


class BadRequest(Exception):
    """What came is not HTTP, or more than is taken. `status` is to be answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Header names are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Requests in, replies out, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._bodiless = False

    async def request(self) -> HttpRequest | None:
        """The next one; None when the client has closed. Raises BadRequest."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.Request):
                head = event
                self._bodiless = event.method == b"HEAD"
                _fits(int(dict(event.headers).get(b"content-length", b"0")))
                await self._continue()
            elif isinstance(event, h11.Data):
                body += event.data
                _fits(len(body))
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
                return HttpRequest(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))
            else:
                return None

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(error.error_status_hint, str(error)) from error
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # h11 has one sentinel type for each
            self._http.receive_data(await self._reader.read(_READ))

    async def _continue(self) -> None:
        """A client that asks first (`Expect: 100-continue`) is told to go on."""
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))

    async def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A whole reply with its length, in one write."""
        events = [_head(status, {**headers, "Content-Length": str(len(body))}), *self._data(body), h11.EndOfMessage()]
        await self._send(*events)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """A reply's head; without a Content-Length its body is sent in chunks."""
        await self._send(_head(status, headers))

    async def piece(self, data: bytes) -> None:
        await self._send(*self._data(data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    def next(self) -> bool:
        """Make ready for another request; False when the connection is to be closed."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    @property
    def replying(self) -> bool:
        """Whether a reply can still be begun."""
        return self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    async def gone(self) -> None:
        """Returns when the client has closed. What it sends ahead is kept for `request`."""
        ahead = 0
        with contextlib.suppress(OSError):
            while data := await self._reader.read(_READ):
                self._http.receive_data(data)
                ahead += len(data)
                if ahead > _MAX_AHEAD:
                    await asyncio.Event().wait()

    async def waits_for(self, work: asyncio.Future[Any]) -> bool:
        """Whether the work was done before the client had gone; if not, it is cancelled at once. (One that closes its
        sending half has gone: HTTP has no use for it.)"""
        gone = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = work.cancel()
            gone.cancel()
            await asyncio.wait((gone,))
        return not left

    async def linger(self) -> None:
        """Take what is still coming until the client has read the refusal and closes: a connection that is closed with
        unread bytes is reset, and the reply is lost on its way."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SEC):
                while await asyncio.wait_for(self._reader.read(_READ), _PAUSE_SEC):
                    pass

    def _data(self, data: bytes) -> list[h11.Data]:
        return [h11.Data(data=data)] if data and not self._bodiless else []

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        if data:
            self._writer.write(data)
            await self._writer.drain()


def _head(status: int, headers: Mapping[str, str]) -> h11.Response:
    listed = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return h11.Response(status_code=status, headers=listed, reason=HTTPStatus(status).phrase.encode())


def _fits(size: int) -> None:
    if size > MAX_BODY:
        raise BadRequest(413, f"the body is larger than {MAX_BODY} bytes")
