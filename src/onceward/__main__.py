"""Run the command line as `python -m onceward`."""

from onceward.cli import main

if __name__ == "__main__":
    try:
        main()
    finally:
        # An interrupt that came while a module made its classes from text is remembered although
        # it was caught: Python would end by SIGINT, whatever the code. The next text resets that.
        exec("")  # noqa: S102 - nothing is run
