"""The `.keg` file: functions, with all that they refer to, in one file that proves what it holds.

`write_keg` makes the same bytes for the same meaning and labels; `read_keg` returns a graph of which every id, type and
constant has been checked. The layout and the error codes are in `keg_format`.
"""

from bittern.graph.keg_read import Keg, Mapped, read_keg
from bittern.graph.keg_write import ExternalBlob, keg_size, stored_size, write_keg

__all__ = ["ExternalBlob", "Keg", "Mapped", "keg_size", "read_keg", "stored_size", "write_keg"]
