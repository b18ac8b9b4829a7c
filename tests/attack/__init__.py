"""What a hostile file, disk, hub or signal may do to Fovea, generated from seeds and judged.

`scripts/attack` runs it for minutes, test_attack.py for seconds. `generate/` makes hostile things and
knows nothing about the program; `kinds/` runs the program on them; `supervise.py` and `jobs.py` judge the result."""
