#!/bin/bash
set -eu
cd /src
sed -i 's/b = t }/b = t; }/; s/#include <stdio.h>/#include <stdio.h>\n#include <stdlib.h>/' gcd.c
make
