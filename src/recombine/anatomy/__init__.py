"""What is measured inside a model: how rich its features are, and what can be read from them."""

from recombine.anatomy.features import against_position_mean, least_spread, linear_probe, mean_cosine, rank_me, spread

__all__ = ["against_position_mean", "least_spread", "linear_probe", "mean_cosine", "rank_me", "spread"]
