"""`python -m plumbline`: the program, with the same arguments."""

import os
import sys

from . import PlumblineError
from ._program import find

if __name__ == "__main__":
    try:
        path = find()
        os.execv(path, [path, *sys.argv[1:]])
    except (OSError, PlumblineError) as error:
        sys.exit(f"plumbline: {error}")
