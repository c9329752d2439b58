#!/bin/bash
set -eu
tr -d '\r' < /app/in.txt > /app/out.txt
