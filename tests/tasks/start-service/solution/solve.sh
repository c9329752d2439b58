#!/bin/bash
set -eu
cd /srv/site
echo ready > status
nohup python3 -m http.server 8123 --bind 127.0.0.1 > /tmp/server.log 2>&1 &
for _ in $(seq 50); do python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8123/status')" 2>/dev/null && exit 0; sleep 0.1; done
exit 1
