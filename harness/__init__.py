"""tokenproof: which token ids did the model sample, and how sure is that?"""

__version__ = "0.1.0"
