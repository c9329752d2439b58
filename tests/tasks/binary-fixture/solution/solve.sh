#!/bin/bash
set -eu
cd /data
gzip -dkc records.bin.gz > records.bin
wc -c < records.bin | tr -d ' ' > size.txt
head -c 4 records.bin > magic.txt
