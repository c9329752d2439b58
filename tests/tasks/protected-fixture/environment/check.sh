#!/bin/bash
cmp -s /app/answer.txt /app/expected/list
