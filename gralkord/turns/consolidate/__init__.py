"""From what was said to memories: extracted, reconciled with what is known, written together."""
