"""The command line, run as `python -m karenina`."""

import sys

if __name__ == "__main__":
    if sys.path and not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which may contain someone else's modules
    from karenina_cli import main

    main()
