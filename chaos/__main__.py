"""``python -m chaos``: see `chaos.run`."""

from __future__ import annotations

from chaos.run import main

if __name__ == "__main__":
    main()
