#!/bin/bash
set -eu
{ awk '{s += $2} END {print "total", s}' /app/balance.txt; awk '$2 < 0' /app/balance.txt | sort -k2,2n | cut -d' ' -f1; } > /app/report.txt
