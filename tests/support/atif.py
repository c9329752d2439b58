"""The rules of ATIF 1.8 that a trajectory of ours must keep, checked without Harbor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_ROOT = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
         "continued_trajectory_ref", "extra", "subagent_trajectories"}
_AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
_STEP = {"step_id", "timestamp", "source", "message", "observation", "is_copied_context", "extra"}
_AGENT_STEP = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics", "llm_call_count"}
_CALL = {"tool_call_id", "function_name", "arguments", "extra"}
_RESULT = {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
_REF = {"trajectory_id", "trajectory_path", "session_id", "extra"}
_METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "prompt_token_ids",
            "completion_token_ids", "logprobs", "extra"}
_FINAL = {"total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd", "total_steps",
          "extra"}


def problems(trajectory: dict[str, Any]) -> list[str]:
    """Everything that breaks a rule; [] for a good trajectory."""
    json.dumps(trajectory, allow_nan=False).encode("ascii")
    json.dumps(trajectory, allow_nan=False, ensure_ascii=False).encode("utf-8")
    return list(_trajectory(trajectory, set()))


def _trajectory(it: dict[str, Any], seen: set[str]) -> Iterator[str]:
    yield from _unknown(it, _ROOT, "trajectory")
    yield from _unknown(it["agent"], _AGENT, "agent")
    if it["schema_version"] != "ATIF-v1.8":
        yield f"schema_version {it['schema_version']}"
    if it.get("trajectory_id") in seen:
        yield f"trajectory_id {it['trajectory_id']} twice"
    seen.add(it.get("trajectory_id", ""))
    if not all(isinstance(it["agent"].get(name), str) for name in ("name", "version")):
        yield "agent without a name or version"
    if not it["steps"]:
        yield "no steps"
    embedded = it.get("subagent_trajectories", [])
    known = {sub.get("trajectory_id") for sub in embedded}
    for number, step in enumerate(it["steps"], 1):
        yield from (f"step {number}: {text}" for text in _step(step, number, known))
    yield from _unknown(it.get("final_metrics", {}), _FINAL, "final_metrics")
    for sub in embedded:
        if not sub.get("trajectory_id"):
            yield "a subagent trajectory without a trajectory_id"
        yield from (f"{sub.get('trajectory_id')}: {text}" for text in _trajectory(sub, seen))


def _step(step: dict[str, Any], number: int, known: set[str]) -> Iterator[str]:
    yield from _unknown(step, _STEP | _AGENT_STEP, "step")
    if step["step_id"] != number:
        yield f"step_id {step['step_id']}"
    if step["source"] not in ("system", "user", "agent"):
        yield f"source {step['source']}"
    if not isinstance(step["message"], str):
        yield "message is not text"
    if step["source"] != "agent" and (wrong := _AGENT_STEP & step.keys()):
        yield f"{wrong} on a {step['source']} step"
    yield from _unknown(step.get("metrics", {}), _METRICS, "metrics")
    calls = step.get("tool_calls", [])
    for call in calls:
        yield from _unknown(call, _CALL, "tool call")
    ids = [call["tool_call_id"] for call in calls]
    if len(set(ids)) != len(ids):
        yield "a tool_call_id twice"
    for result in step.get("observation", {}).get("results", []):
        yield from _unknown(result, _RESULT, "result")
        if result.get("source_call_id") not in (None, *ids):
            yield f"source_call_id {result['source_call_id']} is of no call in this step"
        for ref in result.get("subagent_trajectory_ref", []):
            yield from _unknown(ref, _REF, "ref")
            if ref.get("trajectory_id") not in known:
                yield f"reference to {ref.get('trajectory_id')}, which is not embedded"


def _unknown(it: dict[str, Any], fields: set[str], what: str) -> Iterator[str]:
    for name in it.keys() - fields:
        yield f"{what}: unknown field {name}"
