#!/bin/bash
passed=0 all=0
for input in "$(dirname "$0")"/cases/*.in; do
  all=$((all + 1))
  [ "$(timeout 5 /app/median.sh < "$input" 2>/dev/null)" = "$(cat "${input%.in}.out")" ] && passed=$((passed + 1))
done
if [ "$passed" = "$all" ]; then all_right=1; else all_right=0; fi
printf '{"reward": %d, "share": %d.%02d}\n' "$all_right" $((passed / all)) $((passed * 100 / all % 100)) > /logs/verifier/reward.json
