"""`bench quality`: what each choice in asking the model does to its answers, with standard errors."""
