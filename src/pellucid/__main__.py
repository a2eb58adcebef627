"""`python -m pellucid`: the command line, where no `pellucid` is on the path."""

from pellucid.cli import main

if __name__ == "__main__":
    main()
