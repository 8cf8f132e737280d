"""What a deletion gives away: the row between a model and the same model without it.

config      which data, model, ways of deleting
data        tables and images as rows; the service's, and public ones
affine      ridge and logistic regression, on rows or on random Fourier features
network     one hidden layer
deleting    the model without a row: retraining, a Newton step, fine-tuning, ascent
attack      the row from the difference, by those who know nothing of the data, or all
baselines   guesses that need no difference, or only its effect on public rows
fourier     a row from its random features
remedies    batches, noise, another seed
command     all of it: `informed deletion`
pictures    curves of cosine similarities

THREAT: both models are seen, before and after one row was deleted. The uninformed
adversary has public rows of the same distribution, knows architecture, loss and decay,
and no row of the service's. Source: Bertran et al. 2024, "Reconstruction attacks on
machine unlearning: simple models are vulnerable" (arXiv:2405.20272).
"""
