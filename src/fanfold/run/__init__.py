"""HOW it is carried out: route, reserve, permit, attempt, settle, gate, outcome."""
