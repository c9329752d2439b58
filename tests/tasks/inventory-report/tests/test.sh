#!/bin/bash
want=$(printf 'bolts,5\nnuts,14\nwashers,7')
if [ "$(cat /srv/report/total.csv 2>/dev/null)" = "$want" ] && [ "$(check-stock)" = 3 ] && [ "$(cat /srv/.built)" = built ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
