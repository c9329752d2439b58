#!/bin/bash

if [ "$(cat /app/key 2>/dev/null)" = 5050 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
