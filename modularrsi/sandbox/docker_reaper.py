"""Removing what a killed engine left: containers with their volumes, and networks, found by their labels."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from modularrsi.errors import SandboxError
from modularrsi.sandbox.docker_client import Engine, connect

LABEL = "modularrsi"
"""On everything of ours; the value says what it is ("sandbox", "network")."""

_LIST_SEC = 60.0
_REMOVE_SEC = 60.0
_RELEASE_PAUSES = (0.1, 0.2, 0.4, 0.8, 0.0)
"""Seconds after each attempt to remove a network that nothing uses any more."""


async def reap(labels: Mapping[str, str]) -> list[str]:
    """Remove every sandbox that carries all of `labels` (and is one of ours), then unused networks; the names removed.

    Raises `SandboxError` ("stop_failed") when something cannot be removed, after all the rest has been tried, or
    ("unsupported") when no Engine can be reached.
    """
    engine = await connect()
    filters: dict[str, Any] = {"label": [f"{LABEL}=sandbox", *(f"{name}={value}" for name, value in labels.items())]}

    def find() -> list[Any]:
        return engine.client.containers.list(all=True, filters=filters, sparse=True, ignore_removed=True)

    removed, failed = [], []
    for container in await engine.call("list containers", "stop_failed", find, _LIST_SEC):
        name = (container.attrs.get("Names") or [container.id])[0].lstrip("/")
        try:
            await remove_container(engine, container.id)
            removed.append(name)
        except SandboxError as error:
            failed.append(str(error))
    await engine.call("remove networks", "stop_failed", lambda: remove_networks(engine), _REMOVE_SEC)
    if failed:
        raise SandboxError("; ".join(failed), "stop_failed")
    return removed


async def remove_container(engine: Engine, name: str) -> None:
    """Kill and remove one container and its anonymous volumes. One that is gone, or going, is no fault."""

    def remove() -> None:
        try:
            engine.client.api.remove_container(name, force=True, v=True)
        except engine.errors.NotFound:
            return
        except engine.errors.APIError as error:
            if error.status_code != 409:  # 409: somebody else is removing it
                raise
            engine.client.api.wait(name, timeout=int(_REMOVE_SEC), condition="removed")

    await engine.call(f"remove container {name}", "stop_failed", remove, _REMOVE_SEC)


def remove_networks(engine: Engine) -> None:
    """Remove our networks that no container uses. A busy Engine takes a moment to let go of one whose last container
    it has removed."""
    for network in engine.client.networks.list(filters={"label": f"{LABEL}=network"}):
        for pause in _RELEASE_PAUSES:
            if _removed(engine, network) or _in_use(engine, network):
                break
            time.sleep(pause)


def _removed(engine: Engine, network: Any) -> bool:
    """Whether it is gone; False when the Engine refuses, as it does for one that is in use."""
    try:
        network.remove()
    except engine.errors.APIError as error:
        if error.status_code not in (403, 404, 409):
            raise
        return error.status_code == 404
    return True


def _in_use(engine: Engine, network: Any) -> bool:
    try:
        network.reload()
    except engine.errors.APIError:
        return True  # gone meanwhile, or not to be told: nothing to wait for
    return bool(network.attrs.get("Containers"))
