"""For tests, ours and users: a virtual clock, a scripted member, a model server on loopback."""
