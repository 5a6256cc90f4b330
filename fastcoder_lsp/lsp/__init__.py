"""The language server: converts between the protocol and plain values. Only here: pygls, lsprotocol."""
