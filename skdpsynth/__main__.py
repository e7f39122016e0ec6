"""Entry point of ``python -m skdpsynth``."""

from skdpsynth.cli import main

if __name__ == "__main__":
    main()
