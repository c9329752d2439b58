"""Splitting output from what stands around it, and reading the Engine's frames, however they are cut."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.errors import SandboxError
from modularrsi.sandbox.docker_exec import Capture
from modularrsi.sandbox.docker_files import Chunks
from modularrsi.sandbox.docker_wire import EngineAddress, EngineRefused, RawStream, ask

WORD = b"0123456789abcdef01234567"
cuts = st.lists(st.integers(0, 400), max_size=12)


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in at), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.binary(max_size=300), st.integers(0, 255), st.integers(0, 400), cuts, st.binary(max_size=50))
def test_capture_finds_the_trailer_however_it_is_cut(
    output: bytes, code: int, limit: int, at: list[int], late: bytes
) -> None:
    capture = Capture(WORD, limit, opened=False)
    for piece in pieces(WORD + output + WORD + b":%d;" % code + late, at):
        capture.feed(piece)
    assert capture.code == code
    assert capture.result() == (output[:limit], len(output) > limit)


@given(st.binary(max_size=300), cuts)
def test_capture_without_a_trailer_keeps_everything(output: bytes, at: list[int]) -> None:
    capture = Capture(WORD, 1000, opened=True)
    for piece in pieces(output, at):
        capture.feed(piece)
    assert capture.code is None
    assert capture.result() == (output, False)


@pytest.mark.parametrize("forged", [WORD + b":;", WORD + b":abc;", WORD + b":12345;", WORD + b":1"])
def test_capture_takes_no_half_trailer(forged: bytes) -> None:
    capture = Capture(WORD, 1000, opened=True)
    capture.feed(forged)
    assert capture.code is None
    assert capture.result() == (forged, False)


def test_capture_tells_the_daemons_own_words_from_a_commands() -> None:
    capture = Capture(WORD, 1000, opened=False)
    capture.feed(b"OCI runtime exec failed: no such user")
    assert not capture.opened


@given(st.binary(max_size=300), cuts, st.lists(st.integers(1, 70), min_size=1, max_size=8))
def test_chunks_read_like_a_file(data: bytes, at: list[int], sizes: list[int]) -> None:
    chunks, plain = Chunks(iter([part for part in pieces(data, at) if part]), float("inf")), io.BytesIO(data)
    for size in sizes * 20:
        assert chunks.read(size) == plain.read(size)


def test_chunks_end_at_their_deadline() -> None:
    with pytest.raises(ValueError, match="in time"):
        Chunks(iter([b"x"]), 0.0).read(10)


# ------------------------------------------------------------------------------------------------------------ the wire


Use = Callable[[EngineAddress], Coroutine[None, None, None]]


def served(path: Path, answer: bytes, use: Use, cut: int = 1_000_000) -> None:
    """Run `use` against a server that answers any one request with these bytes, `cut` at a time."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(answer), cut):
            writer.write(answer[start : start + cut])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def go() -> None:
        async with await asyncio.start_unix_server(serve, str(path)):
            await use(EngineAddress(f"unix://{path}", "1.41"))

    asyncio.run(go())


def test_an_answer_and_an_empty_one(tmp_path: Path) -> None:
    async def full(address: EngineAddress) -> None:
        assert await ask(address, "GET", "/x") == {"a": 1}

    async def empty(address: EngineAddress) -> None:
        assert await ask(address, "POST", "/x", {}) is None

    served(tmp_path / "1", b'HTTP/1.0 200 OK\r\nA: b\r\n\r\n{"a": 1}', full)
    served(tmp_path / "2", b"HTTP/1.0 204 No Content\r\n\r\n", empty)


@pytest.mark.parametrize(("status", "cause"), [(404, "lost"), (409, "lost"), (500, "start_failed")])
def test_refusals_carry_the_engines_words(tmp_path: Path, status: int, cause: str) -> None:
    async def use(address: EngineAddress) -> None:
        with pytest.raises(EngineRefused, match="its own words") as caught:
            await ask(address, "GET", "/x")
        assert (caught.value.status, caught.value.cause) == (status, cause)

    served(tmp_path / "s", b'HTTP/1.0 %d No\r\n\r\n{"message": "its own words"}' % status, use)


@pytest.mark.parametrize("answer", [b"", b"HTTP", b"nonsense\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n{cut", b"x" * 500_000])
def test_broken_answers_are_sandbox_errors(tmp_path: Path, answer: bytes) -> None:
    async def use(address: EngineAddress) -> None:
        with pytest.raises(SandboxError) as caught:
            await ask(address, "GET", "/x")
        assert caught.value.cause == "lost"

    served(tmp_path / "s", answer, use)


def test_an_engine_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async def go() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_unix_server(silent, str(tmp_path / "s")):
            with pytest.raises(SandboxError, match="does not answer"):
                await ask(EngineAddress(f"unix://{tmp_path}/s"), "GET", "/x", timeout_sec=0.1)

    asyncio.run(go())


def test_no_engine_at_all(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not answer"):
        asyncio.run(ask(EngineAddress(f"unix://{tmp_path}/none"), "GET", "/x"))


@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
def test_frames_are_put_together(tmp_path: Path, cut: int) -> None:
    frames = [(1, b"hello"), (2, b""), (2, b"err"), (1, bytes(1000))]
    body = b"".join(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for kind, data in frames)

    async def use(address: EngineAddress) -> None:
        stream = await RawStream.start(address, "id")
        got = {1: b"", 2: b""}
        async for kind, data in stream.frames():
            got[kind] += data
        stream.close()
        assert got == {1: b"hello" + bytes(1000), 2: b"err"}

    head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
    served(tmp_path / "s", head + body + b"\1\0\0", use, cut)


def test_an_exec_that_is_refused(tmp_path: Path) -> None:
    async def use(address: EngineAddress) -> None:
        with pytest.raises(EngineRefused, match="is paused"):
            await RawStream.start(address, "id")

    served(tmp_path / "s", b'HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{"message": "is paused"}', use)
