#!/bin/bash

if [ "$(cat /app/notes.html 2>/dev/null)" = "$(printf '<h1>My notes</h1>\n<p>first</p>\n<p>second</p>')" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
