#!/bin/bash
set -eu
grep -v '^#' /app/access.log | awk '$9 == 404 {n[$1]++} END {for (a in n) print n[a], a}' | LC_ALL=C sort -k1,1nr -k2,2 | head -3 > /app/top.txt
