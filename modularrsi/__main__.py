"""`python -m modularrsi`."""

from modularrsi.cli import main

if __name__ == "__main__":
    main()
