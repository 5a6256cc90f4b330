"""Four-bit weights for the CPU engine: rounding, layout in memory, and unpacking to bytes.

A weight is `scale[column] · g[column, group] · q`: q in −8…7, groups of 32 along a row, whole g in −15…15, one float a
column. g·q fits a signed byte, so the products of `int8` multiply the unpacked bytes, and sums stay whole numbers.
"""
