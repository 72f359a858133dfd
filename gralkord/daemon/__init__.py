"""The daemon: router, index lane, sweeper and recall behind one HTTP port."""

from gralkord.daemon.run import run

__all__ = ["run"]
