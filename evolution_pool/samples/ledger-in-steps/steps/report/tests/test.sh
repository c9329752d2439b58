#!/bin/bash

if [ "$(cat /app/report.txt 2>/dev/null)" = "$(printf 'total 1425\nrent\nfood')" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
