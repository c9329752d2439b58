"""Reading a reward. A reward that cannot be read is None, with its cause; it is never taken for 0.

Formats (Harbor): `reward.json`, a flat object of finite numbers, wins over `reward.txt`, one finite number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import cast

from modularrsi.errors import Failure

REWARD_JSON = "/logs/verifier/reward.json"
REWARD_TXT = "/logs/verifier/reward.txt"
MAX_BYTES = 65_536
MOST = 1e12
"""No reward is larger, so that no sum of rewards is infinite."""


@dataclass(frozen=True, slots=True)
class Reward:
    """`value` is what counts: the entry `reward`, or the mean of all entries when there is none of that name (so it is
    1.0 only if each is). None = unscored, and `failure` says why."""

    value: float | None
    entries: dict[str, float] = field(default_factory=dict[str, float])
    failure: Failure | None = None


def unscored(cause: str, message: str) -> Reward:
    return Reward(None, {}, Failure("verifier", cause, message))


def parse_json(data: bytes) -> Reward:
    """A `reward.json`. Unreadable, nested, empty, boolean or non-finite content is None."""
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return unscored("reward_invalid", f"{REWARD_JSON} is not JSON: {str(error)[:200]}")
    if not isinstance(content, dict) or not content:
        return unscored("reward_invalid", f"{REWARD_JSON} must be an object with at least one number")
    entries: dict[str, float] = {}
    for name, value in cast(dict[str, object], content).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            what = f"{name[:80]!r} is not a finite number of at most {MOST:g}"
            return unscored("reward_invalid", f"{REWARD_JSON}: {what}")
        entries[name] = float(value)
    return Reward(entries.get("reward", sum(entries.values()) / len(entries)), entries)


def parse_text(data: bytes) -> Reward:
    """A `reward.txt`: one finite number."""
    text = data.decode("utf-8-sig", "replace").strip()
    if not text:
        return unscored("reward_empty", f"{REWARD_TXT} is empty")
    # `float` alone would also take `1_0` for ten, and digits of other scripts.
    if not text.isascii() or "_" in text:
        return unscored("reward_invalid", f"{REWARD_TXT} holds {text[:80]!r}, not a number")
    try:
        value = float(text)
    except ValueError:
        return unscored("reward_invalid", f"{REWARD_TXT} holds {text[:80]!r}, not a number")
    if not _finite(value):
        return unscored("reward_invalid", f"{REWARD_TXT} holds {text[:80]!r}, not a finite number of at most {MOST:g}")
    return Reward(value, {"reward": value})


def _finite(value: int | float) -> bool:
    try:
        return abs(float(value)) <= MOST
    except OverflowError:
        return False
