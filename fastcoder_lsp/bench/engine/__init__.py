"""`bench engine`: what a forward pass costs on this machine. The one benchmark that is in the installed package."""
