#!/bin/bash

if [ "$(cat /app/balance.txt 2>/dev/null)" = "$(printf 'food -105\nrent -720\nsalary 2250')" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
