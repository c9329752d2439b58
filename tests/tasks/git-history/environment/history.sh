#!/bin/bash
set -e
cd /repo
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org
git init -q -b main .
git config user.name Ada
git config user.email ada@example.org
printf '[server]\nport = 80\ntimeout = 42\nhost = all\n' > config.ini
git add . && git commit -qm 'First configuration'
sed -i 's/port = 80/port = 8080/' config.ini && git commit -qam 'Move to port 8080'
sed -i '/timeout/d' config.ini && git commit -qam 'Tidy up'
echo 'Read me' > README && git add . && git commit -qm 'Say something'
