"""The version of the package; the same as that of the binary."""

__version__ = "0.1.0"
