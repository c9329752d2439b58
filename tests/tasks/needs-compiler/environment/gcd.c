#include <stdio.h>

static long gcd(long a, long b) {
    while (b) { long t = a % b; a = b; b = t }
    return a;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    printf("%ld\n", gcd(atol(argv[1]), atol(argv[2])));
    return 0;
}
