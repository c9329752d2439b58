#!/bin/bash
set -eu
printf '#!/bin/bash\ngrep -v "^[[:space:]]*$" | sort -n | awk "{v[NR]=\\$1} END {print v[int((NR+1)/2)]}"\n' > /app/median.sh
chmod +x /app/median.sh
