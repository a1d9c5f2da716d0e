"""The commands around translating: language models, tuning, evaluation."""
