"""The Dramatiq shell of the understand lane. No logic lives here."""
