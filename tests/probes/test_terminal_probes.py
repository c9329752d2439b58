"""Ten probes of the terminal, each a behaviour that users of terminal agents have reported as broken.

Every probe runs a real tmux with a real shell inside bubblewrap in its pane.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.bwrap import bwrap_shell
from support.terminals import idle, needs_tmux, seen, terminal, written

from harness.types import Key

pytestmark = needs_tmux


def heredoc(path: str, body: str) -> str:
    return f"cat > {path} <<'END'\n{body}END\n"


def test_probe_1_five_thousand_lines_survive(tmp_path: Path) -> None:
    """The history limit holds for the session's first window: all of 5,000 lines can be read back."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.read("new")
            await made.send(["seq -f 'line %g' 5000; echo do''ne\n"], 0)
            await seen(made, "done")
            expected = "\n".join(f"line {number}" for number in range(1, 5001))
            assert expected in (await made.read("scrollback")).text
            new = await made.read("new")
            assert expected in new.text and new.complete
            assert new.total_lines > 5000

    asyncio.run(run())


def test_probe_2_a_500_column_line_returns_unbroken(tmp_path: Path) -> None:
    """A line that the terminal wrapped over four rows is one line again, in every scope."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.read("new")
            await made.send(["printf '%0500d\\n' 7; echo do''ne\n"], 0)
            await seen(made, "done")
            for scope in ("screen", "scrollback", "new"):
                assert "0" * 499 + "7" in (await made.read(scope)).text.split("\n")

    asyncio.run(run())


def test_probe_3_a_heredoc_with_tabs_and_many_lines_is_byte_exact(tmp_path: Path) -> None:
    """150 lines with leading tabs arrive as written, and the final newline runs the command."""
    body = "".join(f"\tline {number}\t|\n\t\tif x: {{'a': \"$HOME\"}} \\\n" for number in range(75))

    async def run() -> bytes:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send([heredoc("out", body)], 0)
            return await written(tmp_path / "out", body.encode())

    assert asyncio.run(run()) == body.encode()


def test_probe_4_a_paste_of_20_kb_arrives(tmp_path: Path) -> None:
    """20 KB in one command, as one long line and as many lines."""
    many = "".join(f"{number:06d} αβγ 漢字 😀 ; !x `date` #{{pane_id}} ~\n" for number in range(450))
    one = "é0123456789" * 1700

    async def run() -> tuple[bytes, bytes]:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send([heredoc("many", many)], 0)
            first = await written(tmp_path / "many", many.encode())
            await made.send([f"printf %s '{one}' > one\n"], 0)
            return first, await written(tmp_path / "one", one.encode())

    assert len(many.encode()) > 20_000 and len(one.encode()) > 20_000
    assert asyncio.run(run()) == (many.encode(), one.encode())


@pytest.mark.parametrize("length", [4_095, 4_096, 6_000, 20_000])
@pytest.mark.parametrize("unit", ["0123456789", "é漢😀x"])
def test_probe_4_a_long_line_into_cat_is_not_cut_at_4096_bytes(tmp_path: Path, length: int, unit: str) -> None:
    """A terminal in canonical mode drops what is beyond 4,095 bytes of a line; the line arrives all the same."""
    line = (unit * length)[:length] + "\n"
    wanted = f"before\n{line}after\n".encode()

    async def run() -> bytes:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["cat > out\n", "before\n" + line, "after\n", Key("C-d")], 0)
            got = await written(tmp_path / "out", wanted)
            await made.send(["echo still''here\n"], 0)
            await seen(made, "stillhere")
            return got

    assert asyncio.run(run()) == wanted


@pytest.mark.parametrize("reader", ["IFS= read -r line", "line=$(head -n 1)", "line=$(python3 -c 'print(input())')"])
def test_probe_4_a_long_line_reaches_other_readers(tmp_path: Path, reader: str) -> None:
    """Byte-wise, block-wise and buffered readers all get the line: an end-of-file between two pieces ends nothing."""
    line = "abcdefghij" * 900

    async def run() -> bytes:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send([f"echo st''arted; {reader}; printf %s \"$line\" > out\n"], 0)
            await seen(made, "started")
            await asyncio.sleep(0.3)
            await made.send([line + "\n"], 0)
            return await written(tmp_path / "out", line.encode())

    assert asyncio.run(run()) == line.encode()


LITERALS = [
    "Up", "a;", ";", "!x", "-flag", "--", "#{pane_id} #(date)", "$VAR ${VAR} $(x)", "it's \"quoted\"", "back\\slash\\",
    "%end 1 2 3", "~", "{ }", "C-c", "Enter", "𝔘𝔫𝔦 😀 漢字", "a\u200db", "'", '"', "\\", "x" * 999, "%%1%%", "#",
    "\ta\tb",
]  # fmt: skip


def test_probe_5_literal_text_stays_literal(tmp_path: Path) -> None:
    """Key names, separators, tmux formats, history marks and quotes are text: `cat` receives what was sent."""
    wanted = "".join(f"{text}\n" for text in LITERALS).encode()

    async def run() -> bytes:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["cat > out\n"], 0)
            for text in LITERALS:
                await made.send([text, "\n"], 0)
            return await written(tmp_path / "out", wanted)

    assert asyncio.run(run()) == wanted


def test_probe_5_text_at_the_shell_is_not_expanded_by_tmux_or_history(tmp_path: Path) -> None:
    """`echo !x` prints `!x`, a trailing `;` stays, and what looks like a tmux format reaches the shell."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(['echo "!x" \'#{pane_id}\' Up;\n'], 0)
            await seen(made, "\n!x #{pane_id} Up")
            await made.send(["NUL\x00and\ud800here"], 0)
            await seen(made, "NUL�and�here")

    asyncio.run(run())


def test_probe_6_a_pager_hides_nothing_for_good(tmp_path: Path) -> None:
    """While `less` is open it is flagged; after `q` the earlier screen, and unread output from before, are there."""
    (tmp_path / "text").write_text("".join(f"pager {number}\n" for number in range(200)))

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["echo bef''ore; less text\n"], 0)
            await seen(made, lambda shot: shot.alternate and "pager 5" in shot.text)
            shot = await made.read("new")
            assert shot.alternate and not shot.complete and "before" not in shot.text
            everything = (await made.read("scrollback")).text
            assert "\nbefore\n" in everything and "pager 5" in everything
            await made.send(["q"], 0)
            await idle(made)
            new = await made.read("new")
            assert "\nbefore\n" in new.text and "pager" not in new.text.replace("less text", "")
            assert new.complete and not new.alternate

    asyncio.run(run())


def test_probe_6_clear_does_not_erase_the_scrollback(tmp_path: Path) -> None:
    """`clear` empties the screen only; the next reading holds nothing stale."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["seq -f 'old %g' 100\n"], 0)
            await seen(made, "old 100")
            await idle(made)
            await made.read("new")
            await made.send(["clear\n"], 0)
            await seen(made, lambda shot: shot.text == "$")
            new = await made.read("new")
            assert new.text == "$ clear\n$" and new.complete
            assert "old 1\n" in (await made.read("scrollback")).text

    asyncio.run(run())


def test_probe_6_an_erased_scrollback_is_admitted(tmp_path: Path) -> None:
    """A program that erases the history itself (CSI 3 J): the reading is the screen, and says it is incomplete."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["seq -f 'old %g' 100\n"], 0)
            await seen(made, "old 100")
            await idle(made)
            await made.read("new")
            await made.send(["printf '\\033[H\\033[2J\\033[3J'; echo fr''esh\n"], 0)
            await seen(made, "fresh")
            new = await made.read("new")
            assert not new.complete and "fresh" in new.text and "old" not in new.text
            assert (await idle(made)) and (await made.read("new")).text == "$"

    asyncio.run(run())


@pytest.mark.parametrize("text", ["cat <<END\nabc\n", "echo 'abc\n", 'echo "abc\n', "for i in 1 2\n", "echo \\\n"])
def test_probe_7_an_unfinished_command_is_reported_as_waiting(tmp_path: Path, text: str) -> None:
    """An open heredoc, quote or loop is told apart from a command that runs and from a finished one."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            assert not (await made.read("new")).waiting
            await made.send([text], 0)
            shot = await seen(made, lambda shot: shot.waiting, "new")
            assert shot.busy is False
            await made.send([Key("C-c")], 0)
            await seen(made, lambda shot: not shot.waiting and shot.text.endswith("$"))
            await made.send(["sleep 60\n"], 0)
            shot = await seen(made, lambda shot: shot.busy is True)
            assert not shot.waiting

    asyncio.run(run())


@pytest.mark.parametrize("death", ["exit 3\n", "kill -9 $$\n"])
def test_probe_8_a_dead_session_is_recreated_and_said_once(tmp_path: Path, death: str) -> None:
    """After `exit` or a killed shell the next call starts the command anew; what was on the screen is not lost."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.read("new")
            await made.send(["X=old; echo last''words; " + death], 0)
            shots = [await made.read("new")]
            while not shots[-1].recreated:
                shots.append(await made.read("new"))
            text = "\n".join(shot.text for shot in shots)
            assert text.count("\nlastwords") == 1 and text.endswith("$")
            assert not (await made.read("new")).recreated
            assert await made.send(["echo \"[$X]\" again\n"], 0) is False
            await seen(made, "[] again")
            assert "lastwords" in (await made.read("scrollback")).text

    asyncio.run(run())


def test_probe_8_send_notices_a_death_too(tmp_path: Path) -> None:
    """`send` starts the session anew before it types, and returns True."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.read("new")
            assert await made.send(["exit\n"], 1.0) is False
            assert await made.send(["echo al''ive\n"], 0) is True
            await seen(made, "\nalive")
            assert (await made.read("new")).text.endswith("logout\n$ echo al''ive\nalive\n$")

    asyncio.run(run())


def test_probe_9_only_new_text_after_leading_blank_lines(tmp_path: Path) -> None:
    """Blank lines at the top of the screen do not make old text come back."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["clear; echo; echo; echo; echo fir''st\n"], 0)
            await seen(made, "first")
            await idle(made)
            await made.read("new")
            await made.send(["echo sec''ond\n"], 0)
            await seen(made, "second")
            await idle(made)
            assert (await made.read("new")).text == "$ echo sec''ond\nsecond\n$"
            assert (await made.read("new")).text == "$"

    asyncio.run(run())


NOISE = {
    "CSI": "\\033[31m\\033[1Kred\\033[0m\\033[?25l",
    "OSC with BEL": "\\033]0;title\\007",
    "OSC with ST": "\\033]8;;http://x\\033\\\\link\\033]8;;\\033\\\\",
    "OSC 52": "\\033]52;c;aGFjaw==\\007",
    "DCS": "\\033Pq#0;2;0;0;0#0~~@@vv\\033\\\\",
    "passthrough": "\\033Ptmux;\\033\\033]0;x\\007\\033\\\\",
    "split UTF-8": "\\303\\342\\202",
    "wide": "漢字かな😀",
    "progress": "10%%\\r20%%\\r99%%\\r",
    "C0": "\\001\\002\\016\\017\\b\\v\\f",
}


def test_probe_10_control_sequences_are_clean(tmp_path: Path) -> None:
    """Colours, titles, links, clipboard and device strings, progress bars: readable text comes back."""

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            for number, noise in enumerate(NOISE.values()):
                await made.send([f"printf '{noise}'; echo; echo aft''er {number}\n"], 0)
                await seen(made, f"after {number}")
            text = (await made.read("scrollback")).text
            assert set(text) & set(map(chr, [*range(32), *range(127, 160)])) <= {"\n"}
            assert "99%" in text.split("\n") and "10%" not in text.split("\n")
            assert "漢字かな😀" in text and "red" in text.split("\n") and "hack" not in text

    asyncio.run(run())


def test_probe_10_a_megabyte_of_binary_is_survived(tmp_path: Path) -> None:
    """`cat` of a program: no error, bounded text, and the shell is seen to answer afterwards.

    Binary may open a device control string, which swallows output until tmux gives it up after 5 seconds, so the
    shell is asked again and again.
    """

    async def run() -> None:
        async with terminal(tmp_path, bwrap_shell(tmp_path)) as made:
            await made.send(["cat /bin/ls | head -c 1000000\n"], 0)
            texts: list[str] = []
            while "still here" not in "".join(texts):
                assert len(texts) < 60, texts[-1]
                await made.send(["echo sti''ll here\n"], 0.5)
                texts.append((await made.read("new")).text)
            assert sum(map(len, texts)) > 1000 and max(map(len, texts)) < 1_100_000
            "".join(texts).encode()
            assert not set("".join(texts)) & set(map(chr, [*range(10), *range(11, 32)]))

    asyncio.run(run())
