#!/bin/bash

if [ "$(cat /home/worker/me.txt 2>/dev/null)" = worker:1234 ] && [ "$(stat -c %U:%a /home/worker/me.txt)" = worker:600 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
