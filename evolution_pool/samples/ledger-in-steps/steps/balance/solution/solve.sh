#!/bin/bash
set -eu
tail -n +2 /app/ledger.csv | awk -F, '{t[$2] += $3} END {for (a in t) print a, t[a]}' | sort > /app/balance.txt
