#!/bin/bash
work=$(mktemp -d); ok=0
mkdir -p "$work/in/a b/c" "$work/out"
echo 1 > "$work/in/one.txt"; echo 2 > "$work/in/two words.txt"; echo 3 > "$work/in/a b/c/deep.txt"; echo 4 > "$work/in/a b/no.md"
count=$(/app/backup.sh "$work/in" "$work/out" 2>/dev/null)
if [ "$count" = 3 ] && [ "$(cat "$work/out/two words.txt" 2>/dev/null)" = 2 ] && [ "$(cat "$work/out/a b/c/deep.txt" 2>/dev/null)" = 3 ] &&
   [ "$(find "$work/out" -type f | wc -l)" = 3 ]; then ok=1; fi
rm -rf "$work"; echo "$ok" > /logs/verifier/reward.txt
