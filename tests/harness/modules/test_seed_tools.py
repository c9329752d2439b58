"""The seed's grammars, routes and helper commands."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from harness.errors import EngineRefusal, ReplyTruncated
from harness.modules.tools.command.read_file import read_file
from harness.modules.tools.command.write_file import write_file
from harness.modules.tools.grammar.json_object import json_object
from harness.modules.tools.grammar.xml_tags import xml_tags
from harness.modules.tools.route.helpers_first import helpers_first
from harness.modules.tools.route.keystrokes import keystrokes
from harness.scripted import ScriptedModel, ScriptedSandbox, ScriptedTerminal, make_context
from harness.types import Command, CommandCall, Fault, Grammar, Key, Limits, Routed, Turn

LS = Command("ls -la\n", 0.1)


def json_reply(*commands: dict[str, object], complete: bool = False) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": list(commands), "task_complete": complete})


# ---------------------------------------------------------------------------------------------------------- grammars


@pytest.mark.parametrize("grammar", [json_object, xml_tags])
def test_the_prompt_teaches_the_whole_format(grammar: Callable[..., Grammar]) -> None:
    made = grammar(make_context())
    words = ("analysis", "plan", "commands", "keystrokes", "duration", "task_complete", "C-c", "C-d", "0.1", "60")
    assert [word for word in words if word not in made.prompt] == []
    reply = made.parse(made.prompt)
    assert (reply.error, reply.commands[0]) == ("", LS)


def test_a_rollout_follows_the_json_grammar() -> None:
    model = ScriptedModel(["not JSON", json_reply({"keystrokes": "ls\n", "duration": 0.1}), json_reply(complete=True)])
    ctx = make_context(json_object, keystrokes, model=model)
    fault = ctx.run.ask(ctx.run.first_prompt())
    assert isinstance(fault, Fault)
    assert fault.kind == "unreadable"
    turn = ctx.run.ask("again")
    assert isinstance(turn, Turn)
    assert turn.reply.commands == (Command("ls\n", 0.1),)
    done = ctx.run.ask("go on")
    assert isinstance(done, Turn)
    assert done.reply.complete


def test_a_truncated_xml_reply_is_salvaged_by_the_kernel() -> None:
    whole = xml_tags(make_context()).prompt.split("\n\n")[2]
    model = ScriptedModel([ReplyTruncated("too long", whole + "\nNow let me expl")])
    turn = make_context(xml_tags, model=model).run.ask("go")
    assert isinstance(turn, Turn)
    assert turn.reply.commands[0] == LS


def test_the_engines_limit_on_waiting_reaches_the_parser() -> None:
    for grammar in (json_object, xml_tags):
        made = grammar(make_context(limits=Limits(max_wait=5.0)))
        assert [command.duration for command in made.parse(made.prompt).commands] == [0.1, 5.0]


# ------------------------------------------------------------------------------------------------------------ routes


def test_keys_and_text_in_one_command_keep_their_order() -> None:
    terminal = ScriptedTerminal()
    keystrokes(Command("ihello\x1b:wq\n", 2.0), make_context(terminal=terminal))
    assert terminal.sent == [(("ihello", Key("Escape"), ":wq\n"), 2.0)]


def test_a_flood_of_keys_is_refused_and_said() -> None:
    for route in (keystrokes, helpers_first):
        terminal = ScriptedTerminal()
        routed = route(Command("\x03x" * 10_000), make_context(terminal=terminal))
        assert "nothing was typed" in routed.error
        assert terminal.sent == []


@pytest.mark.parametrize(
    ("typed", "head", "body"),
    [
        ("write_file /app/a\nx\n", "/app/a", "x\n"),
        ("  write_file\t/app/a b \nx", "/app/a b ", "x"),
        ("write_file\n", "", ""),
        ("write_file", "", ""),
    ],
)
def test_helpers_get_head_and_body_byte_for_byte(typed: str, head: str, body: str) -> None:
    terminal, sandbox = ScriptedTerminal(), ScriptedSandbox()
    ctx = make_context(helpers_first, write_file, terminal=terminal, sandbox=sandbox)
    routed = helpers_first(Command(typed), ctx)
    assert routed == Routed(Command(typed), "write_file", write_file(CommandCall("write_file", head, body), ctx))
    assert terminal.sent == []


def test_a_helper_that_is_not_active_is_typed() -> None:
    terminal = ScriptedTerminal()
    helpers_first(Command("write_file /app/a\n"), make_context(helpers_first, terminal=terminal))
    assert terminal.typed == "write_file /app/a\n"


def test_a_helpers_answer_reaches_the_observation() -> None:
    sandbox = ScriptedSandbox()
    content = "def f():\n\treturn 'a\\n' + \"$HOME\"\n"
    reply = json_reply({"keystrokes": f"write_file /app/f.py\n{content}", "duration": 0.1})
    ctx = make_context(json_object, helpers_first, write_file, sandbox=sandbox, model=[reply])
    assert "write_file PATH" in ctx.run.first_prompt()
    turn = ctx.run.ask("go")
    assert isinstance(turn, Turn)
    observed = ctx.run.observe(ctx.run.execute(turn))
    assert sandbox.files == {"/app/f.py": content.encode()}
    assert f"Wrote {len(content)} bytes (2 lines) to /app/f.py" in observed.observation


# ---------------------------------------------------------------------------------------------------------- commands


def call(head: str, body: str = "") -> CommandCall:
    return CommandCall("it", head, body)


def test_write_file_writes_what_it_is_given() -> None:
    sandbox = ScriptedSandbox()
    ctx = make_context(sandbox=sandbox)
    body = "\ttabs, 'quotes', \\backslashes\\, $HOME, naïve\r\n\n"
    for path in ("/app/x", " '/app/with space' ", '"/app/quoted"\r'):
        assert write_file(call(path, body), ctx).startswith("Wrote ")
    assert sandbox.files == dict.fromkeys(["/app/x", "/app/with space", "/app/quoted"], body.encode())


def test_write_file_never_claims_what_did_not_happen() -> None:
    class Short(ScriptedSandbox):
        def write_file(self, path: str, data: bytes, append: bool = False) -> int:
            return 3

    class Refusing(ScriptedSandbox):
        def write_file(self, path: str, data: bytes, append: bool = False) -> int:
            raise EngineRefusal("read-only file system")

    assert write_file(call("", "x"), make_context()).startswith("ERROR")
    assert "only 3 of 6 bytes" in write_file(call("/x", "abcdef"), make_context(sandbox=Short()))
    assert "read-only file system" in write_file(call("/x", "abc"), make_context(sandbox=Refusing()))


def test_read_file_numbers_lines_and_takes_ranges() -> None:
    ctx = make_context(sandbox=ScriptedSandbox({"/app/a b": b"one\ntwo\nthree\nfour", "/app/empty": b""}))
    assert read_file(call("/app/a b"), ctx) == (
        "/app/a b: 18 bytes, 4 lines; lines 1 to 4:\n    1  one\n    2  two\n    3  three\n    4  four"
    )
    assert read_file(call("'/app/a b' 2-3"), ctx).endswith("lines 2 to 3:\n    2  two\n    3  three")
    assert read_file(call("/app/a b 4"), ctx).endswith("lines 4 to 4:\n    4  four")
    assert "nothing from line 9" in read_file(call("/app/a b 9"), ctx)
    assert "nothing from line 3" in read_file(call("/app/a b 3-2"), ctx)
    assert "0 bytes, 0 lines" in read_file(call("/app/empty"), ctx)
    assert "no such file" in read_file(call("/app/none"), ctx)


def test_read_file_says_what_it_does_not_show() -> None:
    long, huge = b"y" * 99 + b"\n" + b"x\n" * 20_000, b"z\n" * 700_000
    files = {"/app/long": long, "/app/huge": huge, "/app/bin": b"\x7fELF\0\1"}
    ctx = make_context(sandbox=ScriptedSandbox(files))
    shown = read_file(call("/app/long"), ctx)
    assert len(shown.encode()) <= 10_000
    assert "40100 bytes, 20001 lines" in shown
    assert "bytes left out" in shown
    assert "1000000 bytes or more" in read_file(call("/app/huge 1-2"), ctx)
    assert "binary" in read_file(call("/app/bin"), ctx)
