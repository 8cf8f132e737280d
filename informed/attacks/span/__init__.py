"""The target off the span of D_-: what reads it, and what completes it by training."""

from informed.attacks.span.attack import SpanAttack, SpanConfig, applies

__all__ = ["SpanAttack", "SpanConfig", "applies"]
