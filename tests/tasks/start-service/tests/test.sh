#!/bin/bash

if [ "$(python3 -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/status', timeout=5).read().decode().strip())" 2>/dev/null)" = ready ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
