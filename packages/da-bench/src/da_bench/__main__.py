"""python -m da_bench: the da-bench command."""

from ._cli import main

if __name__ == "__main__":
    main()
