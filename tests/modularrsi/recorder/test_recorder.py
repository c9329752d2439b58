"""What the engine served becomes a valid trajectory, whatever happens on the way."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.atif import problems
from support.recordings import eventful, message, plain_turns, recorder

from harness.types import Key, Snapshot, Usage
from modularrsi.errors import StoreError
from modularrsi.recorder import Recorder, salvage
from modularrsi.recorder.bounds import TEXT_CHARS


def test_turns_become_steps_with_what_the_model_was_shown(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    plain_turns(record)
    result = record.finish("complete")
    assert problems(result) == []
    first, second, third = result["steps"]
    assert (first["source"], first["message"]) == ("user", "do it")
    assert (second["source"], second["message"], second["reasoning_content"]) == ("agent", "reply 0", "because")
    assert second["model_name"] == "m-1"
    assert second["metrics"] == {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 5, "cost_usd": 0.25}
    assert second["tool_calls"] == [{"tool_call_id": "call_0_1", "function_name": "bash_command",
                                     "arguments": {"keystrokes": "ls 0\n", "duration": 1.0}}]
    assert second["observation"] == {"results": [{"source_call_id": "call_0_1", "content": "output 0"}]}
    assert third["observation"]["results"][0]["content"] == "screen 1"
    assert "not shown" in third["extra"]["observation"]
    assert result["final_metrics"] == {"total_prompt_tokens": 201, "total_completion_tokens": 20,
                                       "total_cached_tokens": 10, "total_cost_usd": 0.5, "total_steps": 3}
    assert result["extra"] == {"ending": "complete", "complete": True, "model_calls": 2}


def test_everything_at_once(tmp_path: Path) -> None:
    result = eventful(recorder(tmp_path))
    assert problems(result) == []
    told = [(step["source"], step["message"][:40]) for step in result["steps"]]
    assert told == [
        ("system", "be good"),
        ("user", "do it"),
        ("system", "The model did not answer (model_unavaila"),
        ("agent", "{cut"),
        ("agent", "go"),
        ("system", "The harness rewrote its history: 2 messa"),
        ("user", "here are the answers"),
        ("agent", "done"),
        ("system", "The worker broke the protocol and was st"),
    ]
    cut, go, rewrite, done = (result["steps"][index] for index in (3, 4, 5, 7))
    assert result["steps"][0]["extra"]["before"]["trace"][0]["function"] == "full"
    assert cut["extra"] == {"finish_reason": "length"}
    assert cut["observation"]["results"][0]["content"] == "too long"
    assert [call["function_name"] for call in go["tool_calls"]] == ["sandbox_write_file", "sandbox_exec",
                                                                   "bash_command", "bash_command"]
    assert go["tool_calls"][2]["arguments"] == {"keystrokes": "C-c", "duration": 0.1}
    assert go["tool_calls"][3]["arguments"]["keystrokes"] == "vi\ni<Escape>"
    assert go["tool_calls"][3]["extra"] == {"keys": ["Enter", "Escape"]}
    by_call = {item.get("source_call_id"): item["content"] for item in go["observation"]["results"]}
    assert by_call["call_1_2"] == "exit_code: 0\nstdout: 4\nstderr: "
    assert by_call[None] == "~"
    assert go["extra"]["terminal"] == {"recreated": True, "busy": True}
    assert go["extra"]["notes"] == ["a note"]
    assert len(go["extra"]["trace"]) == 1
    assert rewrite["extra"]["kept"] == 2
    assert rewrite["extra"]["added"] == [message("assistant", "why?")]
    refs = rewrite["observation"]["results"][0]["subagent_trajectory_ref"]
    assert [ref["extra"]["purpose"] for ref in refs] == ["summary", "questions", "answers"]
    assert done["observation"]["results"][0]["content"] == "final screen"


def test_side_calls_are_trajectories_of_their_own_and_counted_once(tmp_path: Path) -> None:
    result = eventful(recorder(tmp_path))
    summary, questions, answers = result["subagent_trajectories"]
    assert summary["agent"]["name"] == "ours-summary"
    assert [step["message"] for step in summary["steps"][1:]] == ["summarise", "the summary"]
    assert summary["steps"][0]["message"].startswith("The first 5 messages are those of the main conversation")
    assert [step["message"] for step in questions["steps"]] == ["ask", "why?"]
    assert answers["steps"][-1]["message"] == "The model did not answer (context_overflow): too long"
    assert summary["final_metrics"]["total_prompt_tokens"] == 30
    assert answers["final_metrics"]["total_prompt_tokens"] == 0
    assert result["final_metrics"]["total_prompt_tokens"] == 10 + 20 + 30 + 5 + 40
    assert result["final_metrics"]["total_completion_tokens"] == 8 + 4 + 3 + 2 + 1


def test_one_unknown_cost_makes_the_total_unknown(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    result = eventful(record)
    assert result["final_metrics"]["total_cost_usd"] is None
    assert result["final_metrics"]["total_cached_tokens"] is None
    assert record.totals() == {"prompt_tokens": 105, "completion_tokens": 18, "cached_tokens": None, "cost_usd": None,
                               "calls": 5}
    silent = recorder(tmp_path / "b")
    silent.request([message("user", "x")])
    silent.reply("y", "", None, 0.1)
    assert silent.totals()["prompt_tokens"] is None
    assert silent.totals()["cost_usd"] == 0.1
    assert "metrics" in silent.finish("complete")["steps"][1]


def test_a_side_call_that_changes_nothing_still_shows(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    history = plain_turns(record, 1)
    record.request([message("user", "is it done?")], "judge")
    record.reply("no", "", Usage(1, 1, 0), 0.0)
    record.request(history)
    record.reply("end")
    record.request([message("user", "once more?")], "judge")
    result = record.finish("complete")
    assert problems(result) == []
    told = [(step["source"], step["message"]) for step in result["steps"]]
    assert told == [("user", "do it"), ("agent", "reply 0"), ("system", "The model was also asked for: judge."),
                    ("agent", "end"), ("system", "The model was also asked for: judge.")]
    assert result["steps"][1]["observation"]["results"][0]["content"] == "output 0"
    names = [sub["trajectory_id"] for sub in result["subagent_trajectories"]]
    assert names == ["run/task/1/judge-1", "run/task/1/judge-2"]


def test_a_reply_that_the_harness_words_differently_is_no_rewrite(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    record.request([message("user", "a")])
    record.reply("raw \0 reply")
    record.request([message("user", "a"), message("assistant", "clean reply"), message("user", "b")])
    record.reply("end")
    steps = record.finish("complete")["steps"]
    assert [step["source"] for step in steps] == ["user", "agent", "agent"]
    assert steps[1]["observation"]["results"][0]["content"] == "b"
    assert steps[1]["extra"]["kept_differently"] is True


def test_nothing_asked_is_still_a_trajectory(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    record.sent(["x"], 0)
    record.note("crash")
    result = record.finish("worker_crashed")
    assert problems(result) == []
    assert result["steps"][0]["message"] == "The worker asked the model for nothing."
    assert result["steps"][0]["extra"]["before"]["notes"] == ["crash"]
    assert result["final_metrics"]["total_prompt_tokens"] == 0


def test_a_kill_at_any_byte_keeps_the_finished_turns(tmp_path: Path) -> None:
    whole = eventful(recorder(tmp_path))
    part = tmp_path / "part.jsonl"
    data = part.read_bytes()
    lengths = []
    for end in range(len(data) + 1):
        if end % 37 and end != len(data):
            continue
        (tmp_path / "cut").write_bytes(data[:end])
        result = salvage(tmp_path / "cut")
        assert problems(result) == []
        lengths.append(len(result["steps"]))
        assert result["extra"]["complete"] is (end == len(data))
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(whole["steps"])


def test_a_damaged_part_file_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b'{"kind":"header"\nnonsense\n')
    with pytest.raises(StoreError, match="line 1"):
        salvage(tmp_path / "part")
    with pytest.raises(StoreError, match="cannot be read"):
        salvage(tmp_path / "absent")
    with pytest.raises(StoreError, match="cannot be written"):
        recorder(Path("/proc/none"))


def test_secrets_are_redacted_before_anything_is_written_or_cut(tmp_path: Path) -> None:
    secret = "hunter2hunter2"

    def redact(text: str) -> str:
        return text.replace(secret, "[REDACTED]")

    record = recorder(tmp_path, redact=redact, extra={"note": secret})
    padding = "x" * (TEXT_CHARS // 2 - 5)
    record.request([message("system", secret), message("user", padding + secret + padding)])
    record.reply(secret, secret, None, None, secret, secret)
    record.sent([secret[:7], secret[7:], Key("Enter")], 1)
    record.read(Snapshot(secret))
    record.sandbox_call("exec", {"command": secret, secret: [secret]}, {"stdout": {"deep": secret}})
    record.trace([{"outcome": secret}])
    record.note(secret)
    record.model_error(secret, secret)
    record.request([message("user", secret)], secret)
    record.violation(secret)
    result = record.finish(secret)
    assert problems(result) == []
    for text in (json.dumps(result), (tmp_path / "part.jsonl").read_text()):
        assert secret not in text
        assert "hunter2" not in text


def test_the_record_grows_with_the_conversation_not_with_its_square(tmp_path: Path) -> None:
    record = recorder(tmp_path)
    history = [message("user", "x" * 1000)]
    for turn in range(100):
        record.request(history)
        record.reply(f"{turn}" + "y" * 1000)
        history = [*history, message("assistant", f"{turn}" + "y" * 1000), message("user", f"{turn}" + "z" * 1000)]
    assert (tmp_path / "part.jsonl").stat().st_size < 300_000
    assert len(record.finish("complete")["steps"]) == 101


def test_what_a_hostile_worker_sends_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modularrsi.recorder.recorder.MAX_PART_BYTES", 500_000)
    record = recorder(tmp_path)
    for turn in range(10):
        record.request([message("user", f"{turn}" + "x" * 500_000)], "p" * 5000)
        record.reply("r" * 500_000)
        record.trace([{"outcome": "o" * 10_000, "evil": 1}] * 2000)
        record.note("n" * 100_000)
    nested: list[Any] = []
    for _ in range(10_000):
        nested = [nested]
    record.sandbox_call("exec", {"deep": nested, "many": list(range(10_000)), "big": 10**400, "nan": math.nan}, {})
    result = record.finish("x")
    assert problems(result) == []
    assert (tmp_path / "part.jsonl").stat().st_size < 2_500_000


@pytest.mark.parametrize("text", ["a\udc80b", "\ud83d", "\0\x1b[31m\r\n\u2028", "ünï", ""])
def test_odd_text_is_recorded(tmp_path: Path, text: str) -> None:
    record = recorder(tmp_path)
    record.request([message("user", text)], text)
    record.request([message("user", text)])
    record.reply(text, text)
    record.sent([text, Key("Enter")], 0.5)
    record.read(Snapshot(text))
    record.sandbox_call(text, {text: text}, {text: text})
    result = record.finish(text)
    assert problems(result) == []
    assert result["steps"][-1]["message"] == text.encode("utf-8", "replace").decode().replace("?", "\ufffd")


texts = st.sampled_from(["a", "b", "c", "\udc80"])
histories = st.lists(st.builds(message, st.sampled_from(["user", "assistant", "system"]), texts), max_size=4)
actions = st.one_of(
    st.tuples(st.just("request"), histories, st.sampled_from(["turn", "turn", "summary", "x"])),
    st.tuples(st.just("reply"), texts),
    st.tuples(st.just("model_error"), texts, texts),
    st.tuples(st.just("sent"), st.lists(texts | st.builds(Key, texts), max_size=2), st.floats()),
    st.tuples(st.just("read"), st.builds(Snapshot, texts)),
    st.tuples(st.just("sandbox_call"), texts, st.dictionaries(texts, st.floats() | texts), st.just({})),
    st.tuples(st.just("trace"), st.lists(st.none() | st.dictionaries(st.sampled_from(["outcome", "x"]), texts))),
    st.tuples(st.just("note"), texts),
    st.tuples(st.just("violation"), texts),
)


@given(st.lists(actions, max_size=25))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_sequence_of_events_is_a_valid_trajectory(events: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        record: Recorder = recorder(Path(name))
        for method, *arguments in events:
            getattr(record, method)(*arguments)
        result = record.finish("end")
        assert problems(result) == []
        assert result["extra"]["model_calls"] == sum(event[0] == "reply" for event in events)
        recorded = [result, *result.get("subagent_trajectories", [])]
        agent_steps = [step for part in recorded for step in part["steps"]
                       if step["source"] == "agent" and not step.get("is_copied_context")]
        assert len(agent_steps) == result["extra"]["model_calls"]
