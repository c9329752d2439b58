#!/bin/bash
set -eu
cd /repo
sed -i 's/^port = 8080$/port = 8080\ntimeout = 42/' config.ini
git commit -qam 'Restore the timeout'
