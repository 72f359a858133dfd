"""Lenses: named channels into memory. What ingestion processes of your own work with is here."""

from __future__ import annotations

from gralkord.lenses.process import Found, Kind, PlainStore, Request, Store

__all__ = ["Found", "Kind", "PlainStore", "Request", "Store"]
