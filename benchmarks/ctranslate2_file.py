"""A file translated as CTranslate2's documentation shows, for benchmarks/translate.py: what a user would write himself.

python benchmarks/ctranslate2_file.py MODEL FOLDER_WITH_SPM FILE BEAM BATCH CORES
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

model, pieces, file, beam, batch, cores = sys.argv[1:]
source = sentencepiece.SentencePieceProcessor(model_file=f"{pieces}/source.spm")
target = sentencepiece.SentencePieceProcessor(model_file=f"{pieces}/target.spm")
translator = ctranslate2.Translator(model, device="cpu", inter_threads=int(cores), intra_threads=1)
lines = Path(file).read_text(encoding="utf-8").split("\n")[:-1]
tokens = source.encode(lines, out_type=str, add_eos=True)
for result in translator.translate_batch(tokens, beam_size=int(beam), max_batch_size=int(batch)):
    print(target.decode(result.hypotheses[0]))
