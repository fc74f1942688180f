"""What every test shares: TensorFlow started quietly, one thread, float64."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "gp")]
