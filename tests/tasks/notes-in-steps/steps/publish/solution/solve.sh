#!/bin/bash
set -eu
{ echo "<h1>$(cat /app/title.txt)</h1>"; sed 's|.*|<p>&</p>|' /app/notes.txt; } > /app/notes.html
