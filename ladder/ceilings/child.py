"""What ncu profiles: ``python -m ladder.ceilings.child CONFIGS.json MEANT.json`` launches each configuration once."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ladder.backends.gpu import Gpu
from ladder.ceilings._bench import Bench
from ladder.ceilings._counters import profile_configs
from ladder.ceilings._record import config_from_json
from ladder.errors import LadderError

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Launch the configurations of a file; write what counters should see of each. The exit code."""
    configs = [config_from_json(each) for each in json.loads(Path(arguments[0]).read_text(encoding="utf-8"))]
    try:
        gpu = Gpu()
        with Bench(gpu) as bench:
            meant = profile_configs(bench, configs)
        gpu.close()
    except LadderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    Path(arguments[1]).write_text(json.dumps(meant), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
