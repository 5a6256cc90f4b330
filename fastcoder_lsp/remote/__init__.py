"""A server as the model: this project's, llama.cpp's, or any that knows OpenAI's completions, asked by HTTP."""
