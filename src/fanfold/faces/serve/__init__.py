"""An OpenAI-compatible endpoint on this machine: the members of a roster behind one address."""
