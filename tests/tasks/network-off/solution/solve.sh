#!/bin/bash
set -eu
tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v '^lo$' > /app/interfaces.txt || true
python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print('up')" > /app/loopback.txt || echo down > /app/loopback.txt
