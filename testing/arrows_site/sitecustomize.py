"""Records arrows in processes that tests start: Python imports this at its start if the folder is on PYTHONPATH."""

import sys
from pathlib import Path

root = str(Path(__file__).resolve().parents[2])
sys.path.insert(0, root)
try:
    from testing.arrows import watch_import
finally:
    sys.path.remove(root)

watch_import()
