"""The simulator's models. A name tells the role, and no other is served: no result can pass for a real model's."""

from __future__ import annotations

from modularrsi.gateway.settings import ROLES, ModelRole

EMBEDDED = "simulated"
"""`--model simulated`: the whole product, each role by its own simulated model."""

MODELS: dict[str, ModelRole] = {f"simulated-{role}": role for role in ROLES}


def model_of(role: ModelRole) -> str:
    return f"simulated-{role}"


def role_of(model: str) -> ModelRole | None:
    """The role that this model plays; `simulated` is the solver. None: not one of the simulator's."""
    return "solver" if model == EMBEDDED else MODELS.get(model)


def is_simulated(model: str) -> bool:
    """Whether a name is the simulator's, wherever its service may be."""
    return role_of(model) is not None
