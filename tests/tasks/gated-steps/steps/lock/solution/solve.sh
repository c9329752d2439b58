#!/bin/bash
set -eu
rev /app/key > /app/lock 2>/dev/null || awk '{for (i = length($0); i; i--) printf "%s", substr($0, i, 1); print ""}' /app/key > /app/lock
