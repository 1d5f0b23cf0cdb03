"""`python -m bittern` is the command `bittern`."""

import sys

from bittern.cli import main

if __name__ == "__main__":
    sys.exit(main())
