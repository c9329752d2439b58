#!/bin/bash
n=0
for f in $(ls $1/*.txt); do
  cp $f $2
  n=$((n + 1))
done
echo $n
