"""THE FRONT: converts between the protocol and plain values, never computes. Only here: pygls, lsprotocol."""
