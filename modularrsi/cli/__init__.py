"""The command line. Parsing only: each command hands over to the part that does the work."""

from modularrsi.cli.app import main

__all__ = ["main"]
