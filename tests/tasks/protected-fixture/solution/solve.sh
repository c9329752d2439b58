#!/bin/bash
set -eu
LC_ALL=C sort /app/words.txt > /app/answer.txt
/app/check.sh
