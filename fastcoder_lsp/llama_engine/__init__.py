"""llama.cpp's arithmetic under our drafts: any GGUF that the library loads, on any device that its build can use."""
