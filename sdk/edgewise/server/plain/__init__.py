"""What llama.cpp's server has beside OpenAI's API: tokens and prompts of a model as they are."""
