"""`python -m harness`: the worker."""

from __future__ import annotations

import sys

from harness.worker import main

if __name__ == "__main__":
    sys.exit(main())
