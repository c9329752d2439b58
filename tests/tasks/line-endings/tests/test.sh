#!/bin/bash
if [ "$(od -c /app/out.txt 2>/dev/null | head -1 | tr -s ' ')" = '0000000 o n e \n t w o \n' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
