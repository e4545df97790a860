"""The labels of a sandbox: `moat ls` shows by them which sample a VM serves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._inspect_private import active_sample

VALUE_MAX = 128
METADATA_MAX = 16


def cleanup_labels(provider: str) -> dict[str, str]:
    """The labels that all sandboxes have which Inspect made with a provider."""
    return {"inspect": "1", "provider": provider}


def process_labels(provider: str) -> dict[str, str]:
    """The labels that all sandboxes of this process have."""
    return {**cleanup_labels(provider), "pid": str(os.getpid())}


def sample_labels(provider: str, task_name: str, metadata: Mapping[str, Any]) -> dict[str, str]:
    """The labels for the sandbox of the sample that is being set up."""
    labels = process_labels(provider)
    labels["task"] = _text(task_name)
    sample_id = metadata.get("__sample_id__")
    if sample_id is not None:
        labels["sample"] = _text(sample_id)
    labels.update(_active_sample_labels())
    added = 0
    for key, value in metadata.items():
        plain = isinstance(value, (str, int, float, bool)) and not str(key).startswith("__")
        if plain and added < METADATA_MAX:
            labels[f"meta.{_text(key)}"] = _text(value)
            added += 1
    return labels


def _active_sample_labels() -> dict[str, str]:
    active = active_sample()
    if active is None:
        return {}
    found = {
        "epoch": getattr(active, "epoch", None),
        "model": getattr(active, "model", None),
        "eval": getattr(active, "eval_id", None),
        "run": getattr(active, "run_id", None),
    }
    return {key: _text(value) for key, value in found.items() if value is not None}


def _text(value: object) -> str:
    """One printable line of bounded length, whatever a dataset put there."""
    line = "".join(c if c.isprintable() else " " for c in str(value))
    clean = line.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= VALUE_MAX else clean[: VALUE_MAX - 1] + "…"
