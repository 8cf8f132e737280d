"""Mathematics of privacy: private training, accounting, reconstruction robustness.

Imports nothing of ours. Empty until private training arrives; the place is kept so
that the order of imports (dp, shadow, reconn, informed) is fixed from the start.
"""
