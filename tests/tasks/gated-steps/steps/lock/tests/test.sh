#!/bin/bash

if [ "$(cat /app/lock 2>/dev/null)" = 0505 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
