"""``python -m skdpsynth`` is the command `skdpsynth`."""

from skdpsynth.cli import main

if __name__ == "__main__":
    main()
