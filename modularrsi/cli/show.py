"""`modularrsi show` and `modularrsi verify`."""
