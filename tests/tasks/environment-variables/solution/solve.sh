#!/bin/bash
set -eu
[ "$PLACE" = "the sea" ]
echo "$COLOUR $ANIMAL" > /app/answer.txt
