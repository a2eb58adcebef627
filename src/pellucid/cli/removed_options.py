"""Table of the options that commands had in an earlier version, and what to write instead of each."""

# Command, its options that are gone, and what to write
# instead; {setting} is the option's name with underscores.
_ROWS = (
    ("calibrate", "--engine", "leave it out, for all engines give the same text"),
    ("compare", "--batch --length-penalty", "write --set {setting}=VALUE"),
    ("compare", "--engine", "leave it out, for all engines give the same text"),
    ("compare", "--precision", "write `pellucid translate --precision`, and compare the files"),
    ("compare", "--samples --seed --show", "in Python, compare_translations takes it"),
    ("demo", "--page", "write `pellucid export MODEL demo.html --to page`"),
    ("distill", "--engine", "leave it out, for all engines give the same text"),
    ("distill", "--weight", "leave it out; a corpus of a run file has a weight"),
    ("evaluate", "--batch --length-penalty", "write --set {setting}=VALUE"),
    ("explain", "--pairs", "in Python, find_influence takes the number of pairs"),
    ("import", "--revision", "write it behind the name: OWNER/MODEL@REVISION"),
    ("improve", "--seed", "write --set seed=NUMBER"),
    ("inspect align", "--dev-source --dev-target --heads --sentence", "leave it out"),
    ("inspect analogy", "--count --seed -k", "leave it out"),
    ("inspect analogy", "--file", "ask for one analogy at a time"),
    ("inspect attention", "--csv --html", "write --json, which says the same"),
    ("inspect attention", "--distances", "write --stage distances"),
    ("inspect attention", "--rollout", "write --stage rollout"),
    ("inspect embedding", "--plot", "write --json, which says the same"),
    ("inspect heads", "--points", "leave it out"),
    ("inspect length", "--beam", "leave it out; the search is greedy"),
    ("inspect lens", "--count", "leave it out"),
    ("inspect lens", "--plot", "write `pellucid explain --html`, whose page has the lens"),
    ("inspect model", "--each", "write --json, which lists every layer"),
    ("inspect pair", "--count --plot --side", "leave it out"),
    ("inspect positions", "--count", "leave it out, or write --text"),
    ("inspect probes", "--each", "write --json, which has every head"),
    ("inspect probes", "--file", "in Python, run_probe takes a Probe of your own"),
    ("inspect project", "--count", "leave it out, or write the words themselves"),
    (
        "inspect project",
        "--method --seed",
        "leave it out; --json has the vectors for other projections",
    ),
    ("inspect project", "--plot", "write --html"),
    ("inspect project", "--tsv --vectors", "write --json, which has coordinates and vectors"),
    ("inspect project", "--words", "write the words themselves"),
    ("inspect similar", "--plot", "write --json, which says the same"),
    ("mini", "--force", "remove the file first"),
    ("plan", "--seconds", "leave it out; updates are tried for five seconds"),
    (
        "push",
        "--card-only",
        "write --card, which writes a file that is not there and uploads nothing",
    ),
    ("score", "--batch --precision", "leave it out"),
    (
        "serve",
        "--alternatives --arrival --beam --body --characters",
        "write --set {setting}=NUMBER",
    ),
    (
        "serve",
        "--connections --each --open-requests --request-terms",
        "write --set {setting}=NUMBER",
    ),
    ("serve", "--seconds --term-characters --texts --trace-bytes", "write --set {setting}=NUMBER"),
    ("serve", "--trace-minutes --traces --waiting", "write --set {setting}=NUMBER"),
    ("serve", "--from --to", "write en:es=MODEL"),
    ("train", "--log", "write --set train.log=tensorboard or --set train.log=mlflow"),
    ("translate", "--batch --length-penalty --markup --max-extra", "write --set {setting}=VALUE"),
    ("translate", "--method --repetition --seed --temperature", "write --set {setting}=VALUE"),
    ("translate", "--too-long --top-k --top-p", "write --set {setting}=VALUE"),
    ("translate", "--block", "write --set batch=1 to answer each line before the next is read"),
    (
        "verify",
        "--tolerance",
        "in Python, Model.verify takes it; --json has the largest difference",
    ),
)


def _advice_by_command() -> dict[str, dict[str, str]]:
    """Return what to write instead of each option, by command."""
    advice_of: dict[str, dict[str, str]] = {}
    for command, options, instead in _ROWS:
        for option in options.split():
            setting = option.removeprefix("--").replace("-", "_")
            advice_of.setdefault(command, {})[option] = instead.format(setting=setting)
    return advice_of


REMOVED_OPTIONS = _advice_by_command()
"""What to write instead of an option, by command and option."""
