"""The attacks of adversaries who have weights alone, as rows of `attacks.registry`.

`informed attacks` lists them and the contract test plays them. They don't run as one
of `config.attacks`: they are not told D_-, and give many candidates, not one guess.
"""

from informed.attacks.registry import Row, register
from uninformed import bilevel, kkt, model_inversion

for _row in (
    Row(
        name="kkt",
        about="many candidates, from the weights of a homogeneous network alone",
        protocol="candidates",
        config=kkt.KktConfig,
        make=lambda config, material: kkt.KktAttack(config),
        sees="weights",
        knows=("victim",),
        uses=("mean",),
        gives=("points", "scores"),
        revision=kkt.REVISION,
    ),
    Row(
        name="bilevel",
        about="points whose training ends at the released weights (Runkel et al. 2024)",
        protocol="candidates",
        config=bilevel.BilevelConfig,
        make=lambda config, material: bilevel.BilevelAttack(config),
        sees="weights",
        knows=("lower", "targets"),
        gives=("points", "scores"),
        revision=bilevel.REVISION,
    ),
    Row(
        name="model_inversion",
        about="points of extreme output; a baseline",
        protocol="candidates",
        config=model_inversion.InversionOfModel,
        make=lambda config, material: model_inversion.ModelInversion(config),
        sees="weights",
        knows=("victim",),
        gives=("points", "scores"),
    ),
):
    register(_row)
