#!/bin/bash
want=$(printf 'Zone=UTC\nhost=localhost\nmode=fast\nname=my site\nport=8080\nquery=c=3=4')
if [ "$(cat /app/final.conf 2>/dev/null)" = "$want" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
