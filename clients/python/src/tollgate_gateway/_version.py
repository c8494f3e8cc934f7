# The only place that has the version: the package's metadata and the User-Agent read it.

__version__ = "0.1.0"
