"""Short names for the facts of a trace: the attributes of `Trace` that need no tensor."""

from pellucid.decode.assemble import Translation
from pellucid.trace.edits import EditSpec
from pellucid.trace.facts import DecoderInputs, DecodingStep, SearchTree, TraceFacts, TraceSide


class FactProperties:
    """Facts of a trace, one property each."""

    def __init__(self, facts: TraceFacts):
        self.facts = facts

    @property
    def id(self) -> str:
        """A short hash of model, sentence, settings and edits; equal for equal traces."""
        return self.facts.id

    @property
    def sentence(self) -> str:
        """The line that was given."""
        return self.facts.sentence

    @property
    def source(self) -> TraceSide:
        """The source as the model read it."""
        return self.facts.source

    @property
    def target(self) -> TraceSide:
        """The translation as the model wrote it."""
        return self.facts.target

    @property
    def inputs(self) -> DecoderInputs:
        """Pieces that the decoder read while it wrote."""
        return self.facts.inputs

    @property
    def forced(self) -> bool:
        """Whether the target was given instead of searched for."""
        return self.facts.forced

    @property
    def stop(self) -> str:
        """Reason why the translation ends: "eos" after EOS, "length" at the largest number of pieces allowed."""
        return self.facts.stop

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole translation, a natural logarithm."""
        return self.facts.log_prob

    @property
    def score(self) -> float:
        """The log-probability divided by the length penalty."""
        return self.facts.score

    @property
    def steps(self) -> list[DecodingStep]:
        """Decoding steps, each with the pieces that could have been written."""
        return self.facts.steps

    @property
    def tree(self) -> SearchTree | None:
        """Tree of the search; None where there was no search, or none that can be observed."""
        return self.facts.tree

    @property
    def edits(self) -> list[EditSpec]:
        """Changes made to this run."""
        return self.facts.edits

    @property
    def notes(self) -> list[str]:
        """Notes on anything unusual about the translation and the trace."""
        return self.facts.notes

    @property
    def sha256(self) -> str:
        """SHA-256 of the file of weights; empty for a model that was never saved."""
        return self.facts.model.sha256

    @property
    def tokenizer_sha256(self) -> str:
        """SHA-256 of each file of the tokenizer, separated by spaces."""
        return self.facts.model.tokenizer_sha256

    @property
    def translation(self) -> Translation:
        """The translation as `Model.translate` returns it."""
        f = self.facts
        scores = f.text, f.score, f.log_prob, f.stop
        return Translation(
            *scores, f.target.pieces, f.piece_log_probs, f.source.pieces, notes=tuple(f.translation_notes)
        )
