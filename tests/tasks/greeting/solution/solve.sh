#!/bin/bash
set -eu
printf 'Hello, world!\n' > /app/greeting.txt
