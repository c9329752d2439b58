"""Skipping with a reason where a sandbox does not work on this machine."""

from __future__ import annotations

import pytest

from modularrsi.sandbox import availability


def usable(kind: str) -> None:
    found = next(one for one in availability() if one.kind == kind)
    if not found.usable:
        pytest.skip(f"{kind}: {found.detail}; {found.fix}")
