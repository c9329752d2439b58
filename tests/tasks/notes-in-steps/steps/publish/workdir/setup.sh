#!/bin/bash
set -e
echo 'My notes' > /app/title.txt
