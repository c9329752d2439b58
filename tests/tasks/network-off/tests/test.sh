#!/bin/bash
python3 - <<'EOF' && ok=1 || ok=0
import pathlib, socket, sys
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
    sys.exit("the network is reachable")
except OSError as error:
    if error.errno is None or isinstance(error, TimeoutError):
        sys.exit(f"packets leave: {error!r}")
found = pathlib.Path("/app/interfaces.txt").read_text()
if found.strip() or pathlib.Path("/app/loopback.txt").read_text().strip() != "up":
    sys.exit("wrong answer")
EOF
echo "$ok" > /logs/verifier/reward.txt
