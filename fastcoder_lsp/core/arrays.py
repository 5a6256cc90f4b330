"""Names for numpy arrays by the type of their numbers. Most numbers of a model are `Floats`."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
