"""Which candidate of the simulated editor's catalogue is of which kind: ground truth, for measuring only."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Kind = Literal["good", "useless", "overfitted", "broken", "duplicate", "hostile"]
Gate = Literal["", "P", "D"]


@dataclass(frozen=True, slots=True)
class Label:
    """`refused`: the gate that should refuse it, P (program) or D (diff review); "" = none needs to."""

    kind: Kind
    refused: Gate


@cache
def labels() -> Mapping[str, Label]:
    """Candidate → label."""
    text = (resources.files("modularrsi.instrument") / "labels.toml").read_text(encoding="utf-8")
    return {name: Label(**entry) for name, entry in tomllib.loads(text).items()}


def of_kind(kind: Kind) -> list[str]:
    return [name for name, label in labels().items() if label.kind == kind]
