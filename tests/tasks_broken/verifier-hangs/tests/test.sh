#!/bin/bash
echo 'waiting for ever'
sleep 600 & wait
