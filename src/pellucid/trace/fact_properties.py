"""What a trace says of itself without a tensor, under short names."""

from pellucid.decode.assemble import Translation
from pellucid.trace.edits import EditSpec
from pellucid.trace.facts import DecoderInputs, DecodingStep, SearchTree, TraceFacts, TraceSide


class FactProperties:
    """The facts of a trace."""

    def __init__(self, facts: TraceFacts):
        self.facts = facts

    @property
    def id(self) -> str:
        """A short hash of model, sentence, settings and edits: the same trace has the same."""
        return self.facts.id

    @property
    def sentence(self) -> str:
        """What was given."""
        return self.facts.sentence

    @property
    def source(self) -> TraceSide:
        """What was read."""
        return self.facts.source

    @property
    def target(self) -> TraceSide:
        """What was written."""
        return self.facts.target

    @property
    def inputs(self) -> DecoderInputs:
        """What the decoder read while it wrote."""
        return self.facts.inputs

    @property
    def forced(self) -> bool:
        """Whether the target was given, not found."""
        return self.facts.forced

    @property
    def stop(self) -> str:
        """Why the translation ends: "eos" at its end mark, "length" at the most pieces it may have."""
        return self.facts.stop

    @property
    def log_prob(self) -> float:
        """Of the whole translation, a natural logarithm."""
        return self.facts.log_prob

    @property
    def score(self) -> float:
        """The log-probability divided by the length penalty."""
        return self.facts.score

    @property
    def steps(self) -> list[DecodingStep]:
        """What each step of decoding could have written."""
        return self.facts.steps

    @property
    def tree(self) -> SearchTree | None:
        """What the search looked at; None where none was made."""
        return self.facts.tree

    @property
    def edits(self) -> list[EditSpec]:
        """What was changed in this run."""
        return self.facts.edits

    @property
    def notes(self) -> list[str]:
        """What was done that was not plain."""
        return self.facts.notes

    @property
    def sha256(self) -> str:
        """Of the file of weights; empty for a model that was never saved."""
        return self.facts.model.sha256

    @property
    def tokenizer_sha256(self) -> str:
        """Of the files of the tokenizer."""
        return self.facts.model.tokenizer_sha256

    @property
    def translation(self) -> Translation:
        """As `Model.translate` gives it."""
        f = self.facts
        scores = f.text, f.score, f.log_prob, f.stop
        return Translation(
            *scores, f.target.pieces, f.piece_log_probs, f.source.pieces, notes=tuple(f.translation_notes)
        )
