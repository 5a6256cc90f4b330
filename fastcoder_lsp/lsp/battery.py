"""Whether this machine runs on its battery, for `power = "auto"` and `doctor`."""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_SUPPLIES: Final = Path("/sys/class/power_supply")
_READ_EVERY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Battery:
    """The battery that runs this machine; `percent`: None where unknown."""

    percent: int | None
    discharging: bool


def read_battery(supplies: Path | None = _SUPPLIES if sys.platform == "linux" else None) -> Battery | None:
    """The machine's battery; None if it has none. May take some 100 ms: laptops answer slowly.

    On Linux psutil takes a mouse's battery for the machine's, so `supplies` is read here.
    """
    if supplies is not None:
        return _from_supplies(supplies)
    with suppress(Exception):  # psutil raises what the system's calls do, and lacks the function on some systems
        if (found := psutil.sensors_battery()) is not None:
            return Battery(round(found.percent), found.power_plugged is False)
    return None


def _from_supplies(supplies: Path) -> Battery | None:
    found, plugged = [], False
    with suppress(OSError):
        for supply in sorted(supplies.iterdir()):
            kind = _value(supply / "type")
            plugged |= kind == "Mains" and _value(supply / "online") == "1"
            if kind == "Battery" and _value(supply / "scope") != "Device":  # "Device": a mouse or a headset has it
                found.append((_value(supply / "status") == "Discharging", _value(supply / "capacity")))
    if not found:
        return None
    discharging = not plugged and any(draws for draws, _ in found)
    levels = [int(level) for _, level in found if level.isdecimal()]
    return Battery(round(sum(levels) / len(levels)) if levels else None, discharging)


def _value(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


class PowerSource:
    """Remembers whether the machine runs on its battery, and looks again now and then, on another thread.

    `changed` is called on the event loop when that has changed. `read` may block.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[], None],
        read: Callable[[], Battery | None] = read_battery,
    ) -> None:
        self._loop, self._changed, self._read = loop, changed, read
        self._on_battery, self._looked_s = False, float("-inf")

    def on_battery(self) -> bool:
        """The result of the last look; begins another one if that was long ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _READ_EVERY_S:
            self._looked_s = now_s
            self._loop.run_in_executor(None, self._look)
        return self._on_battery

    def _look(self) -> None:
        battery = self._read()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take, battery is not None and battery.discharging)

    def _take(self, on_battery: bool) -> None:
        was, self._on_battery = self._on_battery, on_battery
        if was != on_battery:
            self._changed()
