#!/usr/bin/env python3
"""Airlock's command line: `manage.py up` runs everything, `manage.py help` lists all commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from config import embedded_postgres, postgres_user

    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    try:
        if command not in embedded_postgres.COMMANDS_WITHOUT_DATABASE:
            embedded_postgres.hold_embedded_server()
    except (postgres_user.EmbeddedServerError, OSError) as error:
        sys.exit(f"The data folder cannot be used: {error}\nChoose another with DATA_DIR=…, or set DATABASE_URL.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
