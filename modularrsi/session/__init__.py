"""One conversation between the engine and one worker: serve, check, limit, record."""
