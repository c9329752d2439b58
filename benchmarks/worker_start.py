"""How long a worker takes from its command to its first request, without a cage.

    python benchmarks/worker_start.py [ROUNDS]

Prints the median and the fastest of each step in milliseconds, side by side with a bare interpreter in the same run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from harness import wire
from harness.loader import load_library, seed_library_path

ROOT = Path(__file__).resolve().parent.parent
PATH = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
WORKER = f"{PATH}from harness.worker import main; sys.exit(main())"
START = {
    "type": "start",
    "protocol": wire.PROTOCOL,
    "task": {"instruction": "Say hello."},
    "limits": {},
    "library": seed_library_path(),
    "composition": None,
}


def run(code: str) -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def first_request(library: str) -> None:
    """Start a worker and wait for its first line."""
    command = [sys.executable, "-I", "-S", "-B", "-c", WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin and worker.stdout
        worker.stdin.write(wire.encode({**START, "library": library}))
        worker.stdin.flush()
        wire.check_request(wire.decode(worker.stdout.readline()))
        worker.kill()


def large_library(folder: Path, functions: int) -> str:
    """The seed with many more refiners, none of which is active."""
    seed = Path(seed_library_path())
    for path in [*(seed / "modules").rglob("*.py"), seed / "composition.json"]:
        target = folder / path.relative_to(seed)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    text = (seed / "modules/observation/refine/clean_controls.py").read_text()
    for number in range(functions):
        name = f"refine_{number}"
        renamed = text.replace("def clean_controls(", f"def {name}(")
        (folder / f"modules/observation/refine/{name}.py").write_text(renamed)
    return str(folder)


def measure(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    times: list[float] = []
    for _ in range(rounds):
        started = perf_counter()
        work()
        times.append((perf_counter() - started) * 1000)
    return statistics.median(times), min(times)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        large = large_library(Path(folder), 1000)
        steps: dict[str, Callable[[], object]] = {
            "bare interpreter": lambda: run("pass"),
            "import harness.worker": lambda: run(f"{PATH}import harness.worker"),
            "worker, seed, first request": lambda: first_request(seed_library_path()),
            "worker, seed + 1,000 functions": lambda: first_request(large),
            "load_library(seed), in process": lambda: load_library(seed_library_path()),
        }
        for name, work in steps.items():
            median, fastest = measure(work, rounds)
            print(f"{name:32} median {median:8.1f} ms   fastest {fastest:8.1f} ms")


if __name__ == "__main__":
    main()
