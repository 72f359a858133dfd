"""Generalising: hypotheses about a conversation, held against what is known, become notes."""
