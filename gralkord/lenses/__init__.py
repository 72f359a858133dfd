"""Lenses: named channels into memory."""
