"""The command as `python -m karenina`."""

import sys

if __name__ == "__main__":
    if sys.path and not sys.flags.safe_path:
        del sys.path[0]  # the working directory, whose files may be somebody else's
    from karenina_cli import main

    main()
