"""How long to wait after a command, whatever the model wrote."""

from __future__ import annotations

DEFAULT_DURATION = 1.0
MAX_DURATION = 60.0


def clamp_duration(value: object, maximum: float = MAX_DURATION) -> float:
    """`value` as seconds within [0, maximum], finite.

    Numbers are clamped: negative and NaN wait for nothing, as they do in Terminus-2; infinite and absurdly large ones
    (ints of any size) wait for `maximum`; False and True are 0 and 1. What is no number (None, text, …) is the
    default, one second.
    """
    if not isinstance(value, (int, float)):
        return min(DEFAULT_DURATION, maximum)
    if not value > 0:  # NaN included; no conversion yet, for it fails on integers of more than 308 digits
        return 0.0
    return float(min(value, maximum))
