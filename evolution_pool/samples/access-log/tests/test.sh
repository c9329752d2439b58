#!/bin/bash
want=$(grep -v '^#' /app/access.log | grep '" 404 ' | cut -d' ' -f1 | LC_ALL=C sort | uniq -c | awk '{print $1, $2}' | LC_ALL=C sort -k1,1nr -k2,2 | head -3)
if [ -n "$want" ] && [ "$(cat /app/top.txt 2>/dev/null)" = "$want" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
