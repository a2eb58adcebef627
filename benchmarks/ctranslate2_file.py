"""Translate a file as CTranslate2's documentation shows, for benchmarks/translate.py: the script of a user.

python benchmarks/ctranslate2_file.py MODEL FOLDER_WITH_SPM FILE BEAM BATCH WORKERS

Workers of one thread each; one worker has all threads, and a batch of 0 is the whole file: CTranslate2's defaults.
"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

model, pieces, file, beam, batch, workers = sys.argv[1:]
source = sentencepiece.SentencePieceProcessor(model_file=f"{pieces}/source.spm")
target = sentencepiece.SentencePieceProcessor(model_file=f"{pieces}/target.spm")
threads = 0 if workers == "1" else 1
translator = ctranslate2.Translator(model, device="cpu", inter_threads=int(workers), intra_threads=threads)
lines = Path(file).read_text(encoding="utf-8").split("\n")[:-1]
tokens = source.encode(lines, out_type=str)  # CTranslate2 adds the end of the sentence
for result in translator.translate_batch(tokens, beam_size=int(beam), max_batch_size=int(batch)):
    print(target.decode(result.hypotheses[0]))
