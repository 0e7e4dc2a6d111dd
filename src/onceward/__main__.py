"""Run the command line as `python -m onceward`."""

from onceward.cli import main

if __name__ == "__main__":
    main()
