"""The model by HTTP, for clients of llama.cpp's server and of OpenAI's completions: a front over the same host."""
