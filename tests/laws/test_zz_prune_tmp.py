from tests.laws.test_workers import train_with, train_alone
from tests.laws.runs import assert_same_end, weights
from tests.train.corpora import small_run
import torch
def test_two(tmp_path):
    run = small_run(tmp_path / "data", model={"fewer_heads": "encoder.0.self:1 decoder.0.self:0"})
    train_alone(run, tmp_path/"one")
    train_with(2, run, tmp_path/"two")
    a,b=weights(tmp_path/"one/last"),weights(tmp_path/"two/last")
    assert a["decoder.0.self.qkv.weight"].shape[0]==0
    for n in a: torch.testing.assert_close(a[n],b[n],rtol=1e-4,atol=1e-5)
