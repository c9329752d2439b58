#!/bin/bash
set -eu
awk '/^[[:space:]]*(#|$)/ {next} {i = index($0, "="); k = substr($0, 1, i - 1); v = substr($0, i + 1);
  gsub(/^[ \t]+|[ \t]+$/, "", k); gsub(/^[ \t]+|[ \t]+$/, "", v); t[k] = v} END {for (k in t) print k "=" t[k]}' \
  /app/defaults.conf /app/site.conf | LC_ALL=C sort > /app/final.conf
