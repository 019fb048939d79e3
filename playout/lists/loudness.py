"""How much louder or softer a clip is played, so that all clips of a channel are equally loud (EBU R 128)."""

from assets.models import Asset

CEILING_DBTP = -1.0
# A clip this far from the target is a wrong measurement, or silence.
MOST_DB = 30.0


def gain_of(asset: Asset, target_lufs: float | None) -> float:
    """0 if there is no target or no measurement. Never so much that the true peak exceeds the ceiling."""
    if target_lufs is None or asset.loudness_lufs is None:
        return 0.0
    gain = target_lufs - asset.loudness_lufs
    if asset.true_peak_dbtp is not None:
        gain = min(gain, CEILING_DBTP - asset.true_peak_dbtp)
    elif gain > 0:
        return 0.0  # not known how much it may be raised
    return round(gain, 2) if abs(gain) <= MOST_DB else 0.0
