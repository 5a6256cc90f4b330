"""A server in the model's place: another fastcoder-lsp, llama.cpp, or any with OpenAI's completions, over HTTP."""
