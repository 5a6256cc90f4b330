"""One module for each kind of request: it converts the params, calls the service, and converts the answer."""
