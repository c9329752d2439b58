#!/bin/bash

if cmp -s /data/records.bin "$(dirname "$0")/expected.bin" && [ "$(cat /data/size.txt)" = 514 ] && [ "$(cat /data/magic.txt)" = REC1 ] && [ -f /data/records.bin.gz ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
