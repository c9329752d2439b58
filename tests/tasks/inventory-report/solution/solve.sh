#!/bin/bash
set -eu
cat "$STOCK_DIR"/*.csv | grep -v '^#' | awk -F, '{t[$1] += $2} END {for (i in t) print i "," t[i]}' | sort > /srv/report/total.csv
