#!/bin/bash
# A log of 400 requests; every seventh or so is missing its page.
echo '# server started'
for i in $(seq 1 400); do
  address="10.0.$((i % 3)).$((i * i % 11))"
  status=200; [ $((i * 13 % 7)) -lt 2 ] && status=404
  echo "$address - - [01/Jan/2026:00:00:00 +0000] \"GET /page/$i HTTP/1.1\" $status $((i * 17 % 5000))"
done
echo '# 10.9.9.9 - - [x] "GET / HTTP/1.1" 404 1'
