"""Speed and quality, one command and one JSON line each. Not tests."""
