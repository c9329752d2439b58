#!/bin/bash

if [ "$(cat /app/notes.txt 2>/dev/null)" = "$(printf 'first\nsecond')" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
