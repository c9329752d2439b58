"""The record of a rollout: written from what the engine served, in ATIF, and read back for people."""

from modularrsi.recorder.reader import load_trajectory, parse_trajectory
from modularrsi.recorder.recorder import Recorder, salvage

__all__ = ["Recorder", "load_trajectory", "parse_trajectory", "salvage"]
