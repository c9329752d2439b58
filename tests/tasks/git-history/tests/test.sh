#!/bin/bash
cd /repo && git config --global --add safe.directory /repo
if [ "$(git show HEAD:config.ini 2>/dev/null)" = "$(printf '[server]\nport = 8080\ntimeout = 42\nhost = all')" ] && [ "$(git log -1 --format=%s)" = "Restore the timeout" ] && [ "$(git rev-list --count HEAD)" = 5 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
