"""The way back: query, arms, fusion, answer, all inside a deadline."""
