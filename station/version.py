"""The version of Airlock, as every process tells it in its record."""

VERSION = "0.1.0"
