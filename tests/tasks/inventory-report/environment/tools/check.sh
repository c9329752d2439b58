#!/bin/sh
ls "$STOCK_DIR" | wc -l
