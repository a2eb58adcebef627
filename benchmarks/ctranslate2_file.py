"""A file translated as CTranslate2's documentation shows, for benchmarks/translate.py: what a user would write himself.

python benchmarks/ctranslate2_file.py MODEL FOLDER_WITH_SPM FILE BEAM CORES
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

model, pieces, file, beam, cores = sys.argv[1:]
source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"{pieces}/{side}.spm") for side in ("source", "target")
)
translator = ctranslate2.Translator(model, device="cpu", inter_threads=int(cores), intra_threads=1)
tokens = source.encode(Path(file).read_text(encoding="utf-8").splitlines(), out_type=str, add_eos=True)
results = translator.translate_batch(tokens, beam_size=int(beam), max_batch_size=64)
for result in results:
    print(target.decode(result.hypotheses[0]))
