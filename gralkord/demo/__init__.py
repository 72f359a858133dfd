"""The whole path shown on a small invented history."""
