"""Weights in four bits for the CPU engine: how they are rounded, how they lie in memory, how they become bytes again.

A weight is `scale[column] · g[column, group] · q`: q in −8…7, groups of 32 along a row, whole g in −15…15, one float a
column. g·q fits a signed byte, so what is unfolded goes through the products of `int8`, and sums stay whole numbers.
"""
