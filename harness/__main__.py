"""The console script: the command, with Ctrl-C heard while it is loaded too."""

import sys

INTERRUPTED = 130  # as in cli_base, which is not loaded yet


def main() -> None:
    """Load the command and run it."""
    try:
        from harness.cli import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
