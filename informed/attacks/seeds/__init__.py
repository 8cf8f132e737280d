"""Search for the 32-bit seed of unknown initial weights, which the inversion needs.

recovery    the attack, for `inversion` and users: the seeds whose initial weights agree
            with untrained ones
still       weights that training leaves at a multiple of their initial value
seed_search a pass over all seeds of a family, drawing a few weights of each
threefry    single elements of the arrays that JAX draws
"""

from informed.attacks.seeds.recovery import NOT_FOUND, recover, with_seeds

__all__ = ["NOT_FOUND", "recover", "with_seeds"]
