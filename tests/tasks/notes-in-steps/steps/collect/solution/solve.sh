#!/bin/bash
set -eu
cat /app/drafts/*.txt > /app/notes.txt
