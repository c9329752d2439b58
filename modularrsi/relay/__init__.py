"""Programs of their own that stand between two streams and the Docker Engine: a terminal's shell, a worker.

Standard library only, and little of it: each runs once per terminal or worker, started by `start.relay_command`.
"""
