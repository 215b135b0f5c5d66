"""Models of the packages among the test dependencies: zuko, rtdl_revisiting_models and tabm."""

from typing import Any

import torch
from torch import nn

from .public_models_cases import (
    KINK,
    ONLY_VALUES,
    RANDOM,
    REFUSED,
    Case,
    Model,
    density_of,
    log_density,
    package,
)


def zuko(name: str, *, context: int = 0, **options: object) -> Model:
    flow = getattr(package("zuko").flows, name)(3, context, **options)
    x = torch.randn(3, 3) * 0.7
    if context:
        return log_density(lambda x, c: flow(c).log_prob(x), flow, x, torch.randn(3, context))
    return log_density(lambda x: flow().log_prob(x), flow, x)


SMALL: dict[str, Any] = {"hidden_features": (6,), "transforms": 2, "activation": nn.SiLU}
ZUKO: dict[str, Case] = {
    "zuko BPF": Case(lambda: zuko("BPF", degree=4, **SMALL), **KINK),
    "zuko GF": Case(lambda: zuko("GF", transforms=2)),
    "zuko GMM": Case(lambda: zuko("GMM")),
    "zuko MAF": Case(lambda: zuko("MAF", **SMALL), **KINK),
    "zuko MAF, ReLU": Case(lambda: zuko("MAF", hidden_features=(6,), transforms=2), **KINK),
    "zuko NAF": Case(lambda: zuko("NAF", network={"hidden_features": (4,)}, **SMALL), **KINK),
    "zuko NCSF": Case(lambda: zuko("NCSF", **SMALL), **KINK),
    "zuko NICE": Case(lambda: zuko("NICE", **SMALL), **KINK),
    "zuko NSF": Case(lambda: zuko("NSF", **SMALL), **KINK),
    "zuko NSF, conditional": Case(lambda: zuko("NSF", context=2, **SMALL), **KINK),
    "zuko RealNVP": Case(lambda: zuko("RealNVP", **SMALL), **KINK),
    "zuko SOSPF": Case(lambda: zuko("SOSPF", **SMALL), **ONLY_VALUES),
    "zuko UNAF": Case(
        lambda: zuko("UNAF", network={"hidden_features": (4,), "activation": nn.SiLU}, **SMALL),
        **ONLY_VALUES,
    ),
}


def ft_transformer(training: bool) -> Model:
    module = package("rtdl_revisiting_models").FTTransformer(
        n_cont_features=4, cat_cardinalities=[3], d_out=1, n_blocks=1, d_block=8,
        attention_n_heads=2, attention_dropout=0.1, ffn_d_hidden=None,
        ffn_d_hidden_multiplier=2, ffn_dropout=0.1, residual_dropout=0.1,
    ).train(training)  # fmt: skip
    return density_of(module, 4, cond=(torch.tensor([[0], [2], [1]]),))


def table_resnet(training: bool) -> Model:
    module = package("rtdl_revisiting_models").ResNet(
        d_in=4, d_out=1, n_blocks=1, d_block=6, d_hidden=None, d_hidden_multiplier=2.0,
        dropout1=0.1, dropout2=0.1,
    )  # fmt: skip
    module(torch.randn(8, 4))
    return density_of(module.train(training), 4)


def table_mlp(training: bool) -> Model:
    library = package("rtdl_revisiting_models")
    module = library.MLP(d_in=4, d_out=1, n_blocks=2, d_block=6, dropout=0.1)
    return density_of(module.train(training), 4)


def tabm(**options: object) -> Model:
    defaults = {"n_blocks": 2, "d_block": 6, "dropout": 0.0, "k": 3}
    module = package("tabm").TabM(
        n_num_features=4, d_out=1, start_scaling_init="random-signs", **defaults | options
    )
    return density_of(module, 4, f=lambda x: module(x, None))


def periodic_tabm() -> Model:
    embeddings = package("rtdl_num_embeddings").PeriodicEmbeddings(4, 6, lite=False)
    return tabm(num_embeddings=embeddings, activation="SiLU")


TABLES: dict[str, Case] = {
    "rtdl FTTransformer": Case(lambda: ft_transformer(False), **KINK),
    "rtdl FTTransformer, train": Case(lambda: ft_transformer(True), **RANDOM, **KINK),
    "rtdl MLP": Case(lambda: table_mlp(False), **KINK),
    "rtdl MLP, train": Case(lambda: table_mlp(True), **RANDOM, **KINK),
    "rtdl ResNet": Case(lambda: table_resnet(False), **KINK),
    "rtdl ResNet, train": Case(lambda: table_resnet(True), **REFUSED),
    "tabm": Case(tabm, **KINK, seed=2),
    "tabm, SiLU": Case(lambda: tabm(activation="SiLU")),
    "tabm, dropout": Case(lambda: tabm(activation="SiLU", dropout=0.2), **RANDOM),
    "tabm, mini": Case(lambda: tabm(activation="SiLU", arch_type="tabm-mini")),
    "tabm, periodic embeddings": Case(periodic_tabm, **KINK),
}

PACKAGES: dict[str, Case] = ZUKO | TABLES
