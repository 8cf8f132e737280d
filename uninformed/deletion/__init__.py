"""What a deletion gives away: the row between a model and the same model without it.

config    which data, models and ways of deleting
data      tables and images as rows: the service's, public ones, nobody's
models    ridge and softmax regression, random features, a network
services  a trained model, and the same model without some rows
attack    the row from the difference of two models, or from all other rows
measures  how near a guess is; guesses that need no difference
remedies  several rows at once, noise, another seed
command   all of these for every model, as numbers and pictures: `informed deletion`

THREAT: both models are seen, before and after one row was deleted. The uninformed
adversary has public rows of the same distribution, knows architecture, loss and decay,
and no row of the service's. Source: Bertran et al. 2024, "Reconstruction attacks on
machine unlearning: simple models are vulnerable" (arXiv:2405.20272).
"""
