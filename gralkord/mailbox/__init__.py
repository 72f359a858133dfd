"""Ordered, durable, leased work for each group and lane."""
