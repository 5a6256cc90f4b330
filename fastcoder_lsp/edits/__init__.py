"""Next-edit suggestions: what changes next, anywhere in a file.

`values` holds the questions and answers, which cross between processes.
"""
