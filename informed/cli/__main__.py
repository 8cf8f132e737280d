# PYTHON_ARGCOMPLETE_OK
"""Run the command line as `python -m informed.cli`."""

from informed.cli.command_table import main

main()
