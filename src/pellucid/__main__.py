"""Runs the command line as `python -m pellucid`, where the command `pellucid` is not on the path."""

from pellucid.cli import main

if __name__ == "__main__":
    main()
