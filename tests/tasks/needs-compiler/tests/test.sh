#!/bin/bash

if make -C /src -B >/dev/null 2>&1 && [ "$(/src/gcd 48 36)" = 12 ] && [ "$(/src/gcd 17 5)" = 1 ] && cmp -s /src/Makefile "$(dirname "$0")/Makefile"; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
