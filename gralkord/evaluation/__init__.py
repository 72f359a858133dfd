"""Measure how much of what was said recall finds again."""
