"""WHO SHOULD ANSWER: from recorded replies, the cheapest way to an answer that is good enough."""
